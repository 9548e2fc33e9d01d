"""Damaged kernels as distributions pack them: compressed, in boot images, flat, in packages."""

from __future__ import annotations

import struct
from contextlib import suppress
from functools import cache
from random import Random

from dynftrace import arches
from dynftrace.core.elf.image import Image
from dynftrace.core.errors import DynftraceError
from dynftrace.core.ftrace.static_sites import read_sites
from dynftrace.core.modules.tree import ModuleTree

from ..support import wrapping
from ..support.kallsyms_writer import Layout
from .kind import Case, Wrong, written

BOMB = 64 << 20
"""Bytes of zeros that a bomb unpacks to."""


MODULE = "usbhub"
"""The module in the package."""


@cache
def whole(name: str) -> bytes:
    """Return an undamaged kernel, packed in one way; a process makes each once."""
    if name == "bomb":
        return wrapping.bzimage(wrapping.PACKED["gzip"](bytes(BOMB) * 5))
    if name == "flat":
        return wrapping.flat("mipsel")[0]
    if name == "flat of 7.0":
        return wrapping.flat("mipsel", Layout(4, seven=True))[0]
    images = arches.load("x86_64").images()
    kernel = (images / "vmlinux.elf").read_bytes()
    if name == "package":
        boot = wrapping.bzimage(wrapping.PACKED["zstd"](kernel))
        module = wrapping.PACKED["xz"]((images / f"{MODULE}.ko").read_bytes())
        files = {"boot/vmlinuz-6.1": boot, f"lib/modules/6.1/{MODULE}.ko.xz": module}
        return wrapping.package({**files, "boot/config": b"# nothing"})
    packed = wrapping.PACKED[name.removeprefix("boot ")](kernel)
    return wrapping.bzimage(packed) if name.startswith("boot ") else packed


NAMES = (
    *("flat", "flat", "flat of 7.0", "flat of 7.0", "package", "package"),
    *wrapping.PACKED,
    *(f"boot {name}" for name in wrapping.PACKED),
)


def damaged(random: Random, content: bytes) -> bytes:
    """Return `content` cut short, or with bytes, words or stretches changed."""
    raw = bytearray(content)
    for _ in range(random.randint(1, 4)):
        # Headers and tables are at the ends.
        near = random.choice((64, 1200, len(raw), len(raw)))
        at = random.randrange(max(min(near, len(raw)), 1))
        at = len(raw) - 1 - at if random.random() < 0.4 and raw else at
        match random.randrange(6):
            case 0:
                del raw[at:]
            case 1:
                raw[at : at + 4] = struct.pack("<I", random.choice((0, 1, 2**31, 2**32 - 1)))
            case 2:
                raw[at : at + 64] = random.randbytes(random.choice((1, 64, 4096)))
            case 3:
                raw[at:at] = raw[: random.choice((16, 5000))]
            case _:
                raw[at : at + 1] = bytes([random.randrange(256)])
        if not raw:
            break
    return bytes(raw)


class Payload:
    """A damaged payload: recognised, unpacked, and its sites read."""

    name, suffix = "payload", ".bin"

    def case(self, random: Random) -> Case:
        name = "bomb" if random.random() < 0.02 else random.choice(NAMES)
        content = whole(name) if name == "bomb" else damaged(random, whole(name))
        return Case(content, f"records FILE ({name})")

    def take(self, case: Case) -> str:
        path = written("vmlinuz", case.content)
        if "(package)" in case.about:
            with suppress(DynftraceError):
                tree = ModuleTree.beside(path)
                Image.load(tree.path(MODULE), arches.load("x86_64").facts) if tree else None
        flat = "(flat" in case.about
        reader = arches.reader(str(path), "mipsel" if flat else None)
        image = Image.load(path, reader.facts)
        table = read_sites(reader, image)
        if not table.sites or not table.source:
            raise Wrong("a file without sites was read")
        return f"read from {image.symbols_from or 'no symbols'}"
