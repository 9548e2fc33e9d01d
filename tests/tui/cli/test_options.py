"""The options that describe a machine: bad files and values get one sentence."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from dynftrace.tui.cli import options
from dynftrace.tui.files.status_line import StatusLine
from dynftrace.tui.saved.machine_options import MachineOptions

from ..files.test_status_line import Terminal
from .command_line import IMAGES, KERNEL, here


def broken(name: str) -> Callable[[bytes], bytes]:
    """A way to spoil an ELF file."""

    def put(offset: int, data: bytes) -> Callable[[bytes], bytes]:
        return lambda raw: raw[:offset] + data + raw[offset + len(data) :]

    return {
        "empty": lambda raw: b"",
        "not ELF": lambda raw: b"#!/bin/sh\n" * 30,
        "truncated header": lambda raw: raw[:40],
        "truncated": lambda raw: raw[: len(raw) // 2],
        "another machine": put(18, struct.pack("<H", 20)),
        "another word size": put(4, b"\1"),
        "another byte order": put(5, b"\2"),
        "program headers outside": put(32, struct.pack("<Q", 1 << 40)),
        "section headers outside": put(40, struct.pack("<Q", 1 << 40)),
        "a million sections": put(60, b"\xff\xff"),
    }[name]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        ("empty", "empty"),
        ("not ELF", "ELF"),
        ("truncated header", "ELF"),
        ("truncated", "file ends at"),
        ("another machine", "EM_"),
        ("another word size", "32"),
        ("another byte order", "big"),
        ("program headers outside", "file ends at"),
        ("section headers outside", "file ends at"),
        ("a million sections", "file ends at"),
    ],
)
@pytest.mark.parametrize("option", ["--kernel", "--module"])
def test_broken_files_get_a_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, option: str, spoil: str, words: str
) -> None:
    if (option, spoil) == ("--module", "program headers outside"):
        return  # a module has none
    good = KERNEL if option == "--kernel" else IMAGES / "usbcore.ko"
    path = tmp_path / "broken.ko"
    path.write_bytes(broken(spoil)(good.read_bytes()))
    status, out, err = here(capsys, "sh", option, str(path), "-c", "cat current_tracer")
    assert (status, out) == (1, "")
    assert err.startswith(f"dynftrace: {path}: ") and err.count("\n") == 1
    assert words in err


def test_no_such_file_and_no_regular_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    gone = str(tmp_path / "gone.elf")
    assert here(capsys, "sites", "--kernel", gone) == (
        1,
        "",
        f"dynftrace: {gone}: No such file or directory\n",
    )
    status, _, err = here(capsys, "sites", "--kernel", str(tmp_path))
    assert status == 1 and err.startswith(f"dynftrace: {tmp_path}: ")
    status, _, err = here(capsys, "sites", "--module", "nosuchmodule")
    assert status == 1 and "nosuchmodule" in err


def test_a_module_is_not_a_kernel_nor_a_kernel_a_module(
    capsys: pytest.CaptureFixture[str],
) -> None:
    module = str(IMAGES / "usbcore.ko")
    status, _, err = here(capsys, "sites", "--kernel", module)
    assert status == 1 and "relocatable" in err
    status, _, err = here(capsys, "sites", "--module", str(KERNEL))
    assert status == 1 and "not a module" in err


def test_no_call_sites(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = here(capsys, "sites", "--kernel", str(IMAGES / "vmlinux-plain.elf"))
    assert status == 1 and "no call sites" in err


def test_a_module_for_another_kernel(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    raw = (IMAGES / "usbcore.ko").read_bytes()
    path = tmp_path / "usbcore.ko"
    path.write_bytes(raw.replace(b"vermagic=6.1", b"vermagic=5.9"))
    status, _, err = here(capsys, "sites", "--module", str(path))
    assert status == 1 and "version magic" in err and err.count("\n") == 1


def test_a_discovery_the_kernel_does_not_have_is_one_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, _, err = here(capsys, "sh", "--discovery", "ftraced", "-c", "ls")
    assert status == 2 and "x86_64" in err and "choose from: table" in err and err.count("\n") == 1
    status, out, _ = here(
        *(capsys, "sh", "--kernel", "x86_64-2008", "--discovery", "ftraced"),
        *("-c", "cat dyn_ftrace_total_info"),
    )
    assert (status, out) == (0, "0\n")


def test_opening_a_machine_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(True)
    seconds = iter(range(0, 50, 3))
    line = partial(StatusLine, stream=terminal, clock=lambda: next(seconds))
    monkeypatch.setattr(options, "StatusLine", line)
    options.opened(MachineOptions("x86_64"))
    shown = [part for part in terminal.getvalue().split("\r\x1b[K") if part]
    assert shown == [
        "opening the kernel: 1 of 4, about 9 s left",
        "opening the kernel: 2 of 4, about 6 s left",
        "opening the kernel: 3 of 4, about 3 s left",
    ]
