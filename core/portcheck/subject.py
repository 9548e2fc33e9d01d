"""The port under test, with the parts that several checks need, each made once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..arch import Addresses, Bytes, Edit, EntryCode, Port, Sites
from ..elf.image import Image
from ..ftrace.entry import CALLER, NEEDED, SLOTS
from ..ftrace.entry_code import entry_code
from ..ftrace.sites import call_sites, calls_of_mcount
from ..kernel.kernel import KERNEL
from ..memento import Restore
from ..session.session import MachineSpec, Session
from .equilibrium import reach, reach_with_modules
from .outcome import Absent, Failure, expect

STEP = 40
"""Interval of the sites that are executed; all sites are encoded and compared."""

_CALLED, _APART = 0x1C00, 0x40
"""Offset from the start of the entry code of the C functions that it calls, and their distance
from each other, in bytes."""


class PortUnderTest:
    """One port; its parts are made on first use, and raise `Failure` and `Absent` as checks do."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.called: dict[str, int] = {}
        """Addresses reserved for the C functions that `entry` calls, by name; no code is there."""
        self._sessions: dict[tuple[MachineSpec, bool], tuple[Session, Restore]] = {}
        self.shared: dict[object, Any] = {}
        """Results that several checks use, by a key of the module that makes them."""

    def image(self, name: str) -> Image:
        """Return one of its images. Raises `Absent` and `ImageError`."""
        path = self.port.images() / name
        if not path.exists():
            raise Absent(f"image {name} does not exist: build it")
        return Image.load(path, self.port.facts)

    @cached_property
    def kernel(self) -> Image:
        """The teaching kernel, built for the port."""
        return self.image(KERNEL)

    def read(self, address: int, size: int) -> bytes:
        """Return bytes of the kernel. Raises `Failure` if it has none at `address`."""
        found = self.kernel.read(address, size)
        if found is None:
            raise Failure(f"the kernel has no {size} bytes at {address:x}")
        return found.tobytes()

    def texts(self, ips: Addresses, width: int) -> Bytes:
        """Return the kernel's text at each of `ips`, shape (n, width)."""
        rows = [np.frombuffer(self.read(int(ip), width), np.uint8) for ip in ips]
        return np.array(rows, np.uint8).reshape(len(ips), width)

    @cached_property
    def ips(self) -> Addresses:
        """Addresses of the kernel's call sites, whether a table lists them or not."""
        find = call_sites if self.port.facts.discovery[0] == "table" else calls_of_mcount
        return find(self.port, self.kernel, self.read)

    @cached_property
    def sites(self) -> Sites:
        """The kernel's call sites as compiled. Raises `Absent` if none are found."""
        if not len(self.ips):
            raise Absent("no call sites are found")
        return Sites(self.ips, compiled=self.texts(self.ips, self.port.facts.sites.size))

    @cached_property
    def first_change(self) -> Edit:
        """The change of `sites` at boot, which may write more than later changes."""
        name = self.port.facts.sites.mcount_symbols[0]
        return self.port.init_nop(self.sites, self.kernel.symbols.address_of(name) or 0)

    @cached_property
    def text(self) -> tuple[int, int]:
        """Start and end of the kernel's first section with code."""
        sections = self.kernel.sections
        return next((s.address, s.address + s.size) for s in sections if s.loaded and s.executable)

    @property
    def base(self) -> int:
        """Address of the entry code."""
        return self.port.facts.map.tracer

    @cached_property
    def entry(self) -> EntryCode:
        """The entry code for `base`, without the C functions that it calls."""

        def place(name: str) -> int:
            return self.called.setdefault(name, self.base + _CALLED + _APART * len(self.called))

        entry = entry_code(self.port, self.base, place)
        for label in NEEDED:
            expect(label in entry.symbols, f"entry.S does not export {label}")
        return entry

    @property
    def labels(self) -> Mapping[str, int]:
        """Addresses of the labels that entry.S exports, by name."""
        return {name: self.base + offset for name, offset in self.entry.symbols.items()}

    @property
    def callers(self) -> list[str]:
        """Labels that sites may call: ftrace_caller and ftrace_regs_caller, if exported."""
        return [name for name in SLOTS if name in self.entry.symbols]

    def slot_of(self, caller: str) -> int:
        """Return the address of the slot that `caller` runs through."""
        labels = self.labels
        return labels.get(SLOTS[caller], labels[SLOTS[CALLER]])

    def start_of(self, ip: int) -> int:
        """Return the start of the function that contains the site `ip`."""
        starts = self.kernel.symbols.address[self.kernel.symbols.by_address]
        return int(starts[np.searchsorted(starts, np.uint64(ip), "right") - 1])

    @property
    def some(self) -> range:
        """Rows of `sites` that checks execute."""
        return range(0, len(self.sites), STEP)

    @property
    def few(self) -> Sequence[int]:
        """A sample of `some`: the first row, the last, and rows between them at intervals."""
        some = self.some
        return sorted({*some[:: max(len(some) // 3, 1)], some[-1]})

    def session(self, spec: MachineSpec | None = None, modules: bool = False) -> Session:
        """Return an open machine on which ftraced, if any, has found all sites.

        With `modules`, this includes the sites that loading modules runs into. The session is
        opened once for each `spec` and shared: each call takes it back to its start.
        """
        key = (spec or MachineSpec(), modules)
        if key not in self._sessions:
            session = Session.open(self.port, spec)
            (reach_with_modules if modules else reach)(session)
            self._sessions[key] = session, session.save()
        session, restart = self._sessions[key]
        restart()
        return session
