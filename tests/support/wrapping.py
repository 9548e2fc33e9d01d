"""Wrappers of kernels, made without the code under test."""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
import zlib
from collections.abc import Callable

import cramjam
import zstandard
from lzallright import LZOCompressor

from dynftrace import arches
from dynftrace.core.elf.image import Image

from .kallsyms_writer import Layout, kallsyms


def legacy_lz4(content: bytes) -> bytes:
    """Return a legacy frame, with the size after it as the kernel's build appends it."""
    blocks = []
    for at in range(0, len(content), 8 << 20):
        block = bytes(cramjam.lz4.compress_block(content[at : at + (8 << 20)], store_size=False))
        blocks.append(struct.pack("<I", len(block)) + block)
    return b"\x02\x21\x4c\x18" + b"".join(blocks) + struct.pack("<I", len(content))


def lzop(content: bytes) -> bytes:
    """Return data as lzop writes it, with a checksum of each unpacked block."""
    head = b"\x89LZO\0\r\n\x1a\n" + struct.pack(
        ">HHHBBIIIIB", 0x1040, 0x20A0, 0x940, 3, 9, 1, 0, 0, 0, 0
    )
    out = head + struct.pack(">I", zlib.adler32(head[9:]))
    for at in range(0, len(content), 1 << 18):
        block = content[at : at + (1 << 18)]
        packed = LZOCompressor().compress(block)
        packed = packed if len(packed) < len(block) else block
        out += struct.pack(">III", len(block), len(packed), zlib.adler32(block)) + packed
    return out + bytes(4)


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "xz": lambda content: lzma.compress(content, check=lzma.CHECK_CRC32, preset=0),
    "lzma": lambda content: lzma.compress(content, lzma.FORMAT_ALONE, preset=0),
    "bzip2": bz2.compress,
    "zstd": zstandard.ZstdCompressor(1).compress,
    "lz4": legacy_lz4,
    "lzo": lzop,
}


def bzimage(payload: bytes) -> bytes:
    """Return a boot image: one sector and one of setup code, 64 bytes of code and a payload."""
    head = bytearray(1024)
    head[0x1F1] = 1
    head[0x202:0x208] = b"HdrS" + struct.pack("<H", 0x20F)
    struct.pack_into("<II", head, 0x248, 64, len(payload))
    return bytes(head) + b"\x90" * 64 + payload + b"after it"


def tar(members: dict[str, bytes]) -> bytes:
    """Return a tar archive, made of headers as POSIX describes them."""
    out = b""
    for name, content in members.items():
        header = name.encode().ljust(100, b"\0") + b"0000644\0" * 3
        header += b"%011o\0" % len(content) + b"0" * 11 + b"\0" + b" " * 8 + b"0"
        out += header.ljust(257, b"\0") + b"ustar\00000".ljust(255, b"\0")
        out += content + bytes(-len(content) % 512)
    return out + bytes(1024)


def package(members: dict[str, bytes]) -> bytes:
    """Return a Debian package with `members` as its files."""
    out = b"!<arch>\n"
    files = {"debian-binary": b"2.0\n", "data.tar.xz": PACKED["xz"](tar(members))}
    for name, content in files.items():
        out += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode()
        out += content + b"\n" * (len(content) % 2)
    return out


def flat(
    arch: str,
    layout: Layout = Layout(pointer=4),  # noqa: B008
    after: dict[str, int] | None = None,
) -> tuple[bytes, Image]:
    """Return the teaching kernel of `arch` as bytes of memory with kallsyms, and its ELF image.

    The port must be one of 32 bits, and little-endian. `after` has more symbols, by their
    distance from the kernel's end.
    """
    image = Image.load(arches.load(arch).images() / "vmlinux.elf", arches.load(arch).facts)
    base = min(segment.address for segment in image.segments)
    memory = bytearray()
    for segment in sorted(image.segments, key=lambda each: each.address):
        memory += (
            bytes(segment.address - base - len(memory)) + image.segment_data(segment).tobytes()
        )
    memory += bytes(-len(memory) % 64)
    table = image.symbols
    rows = [row for row in table.by_address.tolist() if table.functions[row]]
    symbols = [(int(table.address[row]), "t", table.names[row]) for row in rows]
    symbols.append((base + len(memory), "T", "_etext"))
    symbols += [(base + len(memory) + at, "D", name) for name, at in (after or {}).items()]
    tables, _ = kallsyms(symbols, symbols[0][0], layout, base + len(memory))
    return bytes(memory) + tables, image
