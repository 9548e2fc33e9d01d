"""The port a check looks at, with what several checks need of it, made once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from ..arch import Addresses, Bytes, EntryCode, Port, Sites
from ..asm.assemble import assemble
from ..elf.image import Image
from ..ftrace.entry import CALLER, NEEDED, SLOTS
from ..ftrace.sites import call_sites, calls_of_mcount
from ..kernel.kernel import KERNEL
from ..session.session import MachineSpec, Session
from .equilibrium import reach, reach_with_modules
from .outcome import Absent, Failure, expect

STEP = 40
"""Of this many sites one is executed; all are encoded and compared."""

_CALLED, _APART = 0x1C00, 0x40
"""Behind the start of the entry code: where the functions of C are that it calls, and how
far apart."""


class PortUnderTest:
    """One port; its parts are made when first asked for, and raise as a check does."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.called: dict[str, int] = {}
        """The functions of C that `entry` calls, by name: places for them, with no code."""

    def image(self, name: str) -> Image:
        """One of its images; raises `Absent` and `ImageError`."""
        path = self.port.images() / name
        if not path.exists():
            raise Absent(f"the images have no {name}")
        return Image.load(path, self.port.facts)

    @cached_property
    def kernel(self) -> Image:
        """The teaching kernel, built for it."""
        return self.image(KERNEL)

    def read(self, address: int, size: int) -> bytes:
        """Bytes of the kernel; raises `Failure` where it has none."""
        found = self.kernel.read(address, size)
        if found is None:
            raise Failure(f"the kernel has no {size} bytes at {address:x}")
        return found.tobytes()

    def texts(self, ips: Addresses, width: int) -> Bytes:
        """Text of the kernel, shape (n, width)."""
        rows = [np.frombuffer(self.read(int(ip), width), np.uint8) for ip in ips]
        return np.array(rows, np.uint8).reshape(len(ips), width)

    @cached_property
    def ips(self) -> Addresses:
        """Addresses of the kernel's call sites, whether something lists them or not."""
        find = call_sites if self.port.facts.discovery[0] == "table" else calls_of_mcount
        return find(self.port, self.kernel, self.read)

    @cached_property
    def sites(self) -> Sites:
        """The kernel's own call sites, as compiled; raises `Absent` where none are found."""
        if not len(self.ips):
            raise Absent("no call sites are found")
        return Sites(self.ips, compiled=self.texts(self.ips, self.port.facts.sites.size))

    @property
    def base(self) -> int:
        """Where the entry code is."""
        return self.port.facts.map.tracer

    @cached_property
    def entry(self) -> EntryCode:
        """entry.S at its place, without the functions of C that it calls."""

        def place(name: str) -> int:
            return self.called.setdefault(name, self.base + _CALLED + _APART * len(self.called))

        source = self.port.entry_source()
        entry = assemble(self.port.facts, source, self.base, place)
        for label in NEEDED:
            expect(label in entry.symbols, f"entry.S exports no {label}")
        return entry

    @property
    def labels(self) -> Mapping[str, int]:
        """Addresses of what entry.S exports."""
        return {name: self.base + offset for name, offset in self.entry.symbols.items()}

    @property
    def callers(self) -> list[str]:
        """What sites may call: ftrace_caller, ftrace_regs_caller."""
        return [name for name in SLOTS if name in self.entry.symbols]

    def slot_of(self, caller: str) -> int:
        """Address of the slot that `caller` comes to."""
        labels = self.labels
        return labels.get(SLOTS[caller], labels[SLOTS[CALLER]])

    def start_of(self, ip: int) -> int:
        """Where the function begins that the site `ip` is in."""
        starts = self.kernel.symbols.address[self.kernel.symbols.by_address]
        return int(starts[np.searchsorted(starts, np.uint64(ip), "right") - 1])

    @property
    def some(self) -> range:
        """The rows of `sites` that are executed."""
        return range(0, len(self.sites), STEP)

    def session(self, spec: MachineSpec | None = None, modules: bool = False) -> Session:
        """An open machine; where sites are found as they run, they have been.

        With `modules` also those that loading modules runs into.
        """
        session = Session.open(self.port, spec)
        (reach_with_modules if modules else reach)(session)
        return session
