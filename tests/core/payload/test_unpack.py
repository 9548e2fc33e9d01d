"""Wrappers around a kernel: each is made here from the teaching kernel and taken off again."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from time import process_time

import pytest

from dynftrace import arches
from dynftrace.core.elf.image import Image
from dynftrace.core.errors import ImageError
from dynftrace.core.payload import unpack

from ...support.wrapping import PACKED, bzimage, package

KERNEL = (arches.load("x86_64").images() / "vmlinux.elf").read_bytes()


def unpacked(folder: Path, content: bytes) -> bytes:
    """Return what `read` finds in a file with `content`."""
    path = folder / "file"
    path.write_bytes(content)
    return bytes(unpack.read(path).content)


@pytest.mark.parametrize("name", PACKED)
def test_every_compression_is_taken_off(tmp_path: Path, name: str) -> None:
    packed = PACKED[name](KERNEL)
    assert unpacked(tmp_path, packed) == KERNEL
    assert unpacked(tmp_path, bzimage(packed)) == KERNEL
    # Without a header, the payload is found by its first bytes.
    assert unpacked(tmp_path, b"\x7fELF" + b"code" * 999 + packed + b"code" * 99) == KERNEL


def test_a_kernel_is_found_in_a_package(tmp_path: Path) -> None:
    content = package(
        {
            "./usr/share/doc/x": b"text",
            "./boot/vmlinuz-6.1": bzimage(PACKED["gzip"](KERNEL)),
        }
    )
    path = tmp_path / "kernel.deb"
    path.write_bytes(content)
    found = unpack.read(path)
    assert found.content == KERNEL and found.steps[0] == "boot/vmlinuz-6.1"
    assert arches.of_file(str(path))[0] == "x86_64"
    image = Image.load(path, arches.load("x86_64").facts)
    assert image.symbols.address_of("schedule") is not None


def test_one_that_was_unpacked_is_kept_until_it_changes(tmp_path: Path) -> None:
    first = unpacked(tmp_path, PACKED["gzip"](KERNEL))
    second = unpacked(tmp_path, PACKED["gzip"](KERNEL[:-1]))
    assert (first, second) == (KERNEL, KERNEL[:-1])


@pytest.mark.parametrize("name", PACKED)
def test_damage_is_told_in_one_sentence(tmp_path: Path, name: str) -> None:
    packed = PACKED[name](KERNEL)
    for content in (packed[: len(packed) // 2], bzimage(packed)[:-2000], bzimage(b"\0" * 4000)):
        with pytest.raises(ImageError) as refused:
            unpacked(tmp_path, content)
        assert "\n" not in str(refused.value)
        assert any(word in str(refused.value) for word in ("damaged", "truncated", "unknown"))


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "LIMIT", 1 << 20)
    for name, pack in PACKED.items():
        with pytest.raises(ImageError, match="unpacks to more than 1 MB"):
            unpacked(tmp_path, bzimage(pack(bytes(3 << 20))))
        assert name
    with pytest.raises(ImageError, match="limit is"):
        unpacked(tmp_path, package({"boot/vmlinuz": bytes(3 << 20)}))


def test_a_large_file_of_another_kind_is_searched_quickly(tmp_path: Path) -> None:
    start = process_time()
    assert unpacked(tmp_path, bytes(48 << 20)) == bytes(48 << 20)
    assert process_time() - start < 4
    # The payload is found at the end of one piece, too.
    packed = PACKED["xz"](KERNEL)
    for size in ((4 << 20) - 1, 4 << 20):
        assert unpacked(tmp_path, bytes(size) + packed) == KERNEL


def test_a_package_without_a_kernel_says_so(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"there is no kernel in the package: .*linux-binary"):
        unpacked(tmp_path, package({"usr/bin/ls": b"x"}))
    with pytest.raises(ImageError, match="truncated"):
        unpacked(tmp_path, package({"boot/vmlinuz": KERNEL})[:-500])
    with pytest.raises(ImageError, match="unpack it with rpm2cpio"):
        unpacked(tmp_path, b"\xed\xab\xee\xdb\3\0" + KERNEL)


def test_a_fifo_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    assert list(unpack.heads(path)) == []
    with pytest.raises(ImageError, match="not a regular file"):
        unpack.read(path)


def test_a_file_of_another_architecture_contradicts_arch(tmp_path: Path) -> None:
    path = tmp_path / "vmlinuz"
    path.write_bytes(bzimage(PACKED["xz"](KERNEL)))
    assert arches.build(None, str(path)) == ("x86_64", str(path))
    assert arches.build("x86_64-2008", str(path))[0] == "x86_64-2008"
    with pytest.raises(arches.UsageError, match="is for x86_64, not for arm64"):
        arches.build("arm64", str(path))


def test_modules_may_be_packed(tmp_path: Path) -> None:
    module = (arches.load("mips").images() / "usbcore.ko").read_bytes()
    path = tmp_path / "usbcore.ko.xz"
    path.write_bytes(PACKED["xz"](module))
    assert arches.of_file(str(path)) == ("mips",)
    image = Image.load(path, arches.load("mips").facts)
    assert image.relocatable and image.steps == ("xz",)
    assert "usb_ifnum_to_if" in image.symbols.names


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    packed = (PACKED[name](KERNEL) for name in ("zstd", "lz4", "lzo"))
    for name, content in zip(("zstandard", "cramjam", "lzallright"), packed, strict=True):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ImageError, match=rf"needs the package {name}: pip install"):
            unpacked(tmp_path, bzimage(content))
