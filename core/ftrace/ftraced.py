"""Call sites found when they are first called, as the kernel of May 2008 did.

No table lists the sites. As compiled, every site calls mcount. mcount calls ftrace_stub
at boot, later `ftrace_record_ip`, which notes its caller in a slot. The guest's thread
ftraced wakes once a second and, if anything was noted, requests a conversion: with all
CPUs stopped, the sites become records and nops. A function that never runs has no record
and cannot be traced.

Slots and hash are guest memory (`arches/guest/include/ftraced.h`); this module is the
machine's access to them. The guest holds `ftrace_shutdown_lock` while it requests a
conversion. Before the host converts, it lets the holder of the lock finish. A CPU may be
inside mcount with the ip of a site that becomes a nop, and note it again; the next
conversion frees such a slot.

While functions are traced, mcount calls ftrace_stub and ftraced converts nothing.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .. import abi
from ..abi import Hypercall, SlotFlag
from ..arch import Addresses, Edit
from ..elf.image import Image
from ..errors import FtraceBug, MemoryFault, MissingSymbolError
from ..machine.machine import Machine
from ..machine.vcpu import Vcpu
from ..memento import Restore, attributes
from .records import Records

FTRACED, BATCH = "ftraced", "ftraced-batch"
"""Values of `--discovery` for this method: with few slots at boot, or with many."""

BATCH_SYMBOL = "ftraced_batch"
"""The kernel's variable that makes it allocate many slots at boot, an int."""

SYMBOLS = (
    *("mcount_call", "ftrace_stub", "ftrace_record_ip"),
    *("ftrace_hash", "ftrace_pages_start", "ftrace_free_records", "ftrace_shutdown_lock"),
    *("ftraced_trigger", "ftraced_suspend", "ftraced_stop"),
)
"""Symbols that the kernel must define."""

Found = tuple[Addresses, str | None]
"""Sites in the order they were found, and their module (None for the kernel)."""

_LIMIT_NS = 640_000
"""Virtual ns after which a holder of the table's lock counts as stuck."""
_INT = 4
"""Size of the guest's int in bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class _Page:
    """A page of slots: the address of the first slot, and a writable view of those in use."""

    address: int
    slots: NDArray[np.void]

    @property
    def addresses(self) -> Addresses:
        """Address of each slot."""
        size = self.slots.itemsize
        return np.uint64(self.address) + np.arange(len(self.slots), dtype=np.uint64) * np.uint64(
            size
        )


class Ftraced:
    """Converts the call sites that the guest's ftraced has found."""

    def __init__(
        self,
        machine: Machine,
        kernel: Image,
        records: Records,
        convert: Callable[[Sequence[Found]], None],
        change: Callable[[Edit], None],
    ) -> None:
        """`convert` makes records and nops of sites, `change` edits text.

        Both may raise `FtraceBug`. Raises `MissingSymbolError` for a kernel without one of
        `SYMBOLS`.
        """
        self._machine = machine
        self._memory = machine.memory
        self._port = machine.port
        self._records = records
        self._convert = convert
        self._change = change
        self._symbols: dict[str, int] = {}
        for name in SYMBOLS:
            address = kernel.symbols.address_of(name)
            if address is None:
                raise MissingSymbolError(str(kernel.path), name)
            self._symbols[name] = address
        self._modules: dict[str, tuple[tuple[int, int], ...]] = {}
        self.recorder = self._symbols["ftrace_stub"]
        """Address of the function that mcount calls now."""
        self._initialized = False
        self._suspended = False
        self._off = False

    # State

    @property
    def stopped(self) -> bool:
        """Whether the user has disabled conversions, or one has failed."""
        return self._read("ftraced_stop") != 0

    @property
    def suspended(self) -> bool:
        """Whether ftraced waits for the end of tracing."""
        return self._suspended

    @property
    def off(self) -> bool:
        """Whether a bug has shut ftrace off."""
        return self._off

    @property
    def records_calls(self) -> bool:
        """Whether mcount calls the function that notes sites."""
        return self.recorder == self._symbols["ftrace_record_ip"]

    @property
    def slot(self) -> int:
        """Address of the call inside mcount."""
        return self._symbols["mcount_call"]

    def waiting(self) -> int:
        """Return how many sites have a slot but no record yet."""
        return len(self.noted())

    def noted(self) -> Addresses:
        """Return the sites that have a slot but no record yet, in the order of the slots."""
        found = [np.empty(0, np.uint64)]
        with contextlib.suppress(MemoryFault):
            found += [p.slots["ip"][_fresh(p.slots["flags"])] for p in self._pages()]
        ips = np.concatenate(found).astype(np.uint64)
        noted: Addresses = ips[self._records.rows_of(ips) < 0]
        return noted

    def stop(self, stopped: bool) -> None:
        """Disable conversions, or enable them again."""
        self._write("ftraced_stop", int(stopped))

    # Conversion

    def asked(self, call: Hypercall) -> int:
        """Execute a hypercall of the guest; return a number or a negative errno."""
        try:
            if self._off:
                return -errno.ENODEV
            if call is Hypercall.FTRACE_UPDATE:
                return self._update()
            self._initialized = True
            self._record(self._suspended)
        except FtraceBug as found:
            return -found.errno
        return 0

    def collect(self) -> None:
        """Convert the sites found so far. Raises `FtraceBug` with nothing written."""
        self._settle()
        if not self._off:
            self._update()

    def mcount_edit(self, suspended: bool) -> Edit:
        """Return the edit of mcount for the begin of tracing (`suspended`), or for its end."""
        return self._port.update_ftrace_func(
            self._symbols["mcount_call"], self.recorder, self._wanted(suspended)
        )

    def suspend(self, suspended: bool) -> None:
        """Tell the guest that tracing has begun or ended. Raises `FtraceBug`."""
        self._record(suspended)
        self._suspended = suspended
        self._write("ftraced_suspend", int(suspended))

    def shut_off(self) -> None:
        """Stop converting for good: a bug has shut ftrace off."""
        self._off = True
        self.stop(True)

    def module_loaded(self, name: str, code: Sequence[tuple[int, int]]) -> None:
        """Note where the code of a module is: start and end of each section."""
        self._modules[name] = tuple(code)

    def module_gone(self, name: str) -> None:
        """Free the slots of a module's sites: other code may be loaded at their addresses.

        After a bug of ftrace they stay, since nothing reads them any more.
        """
        with contextlib.suppress(FtraceBug, MemoryFault):
            self.collect()
        code = self._modules.pop(name, ())
        if self._off:
            return
        with contextlib.suppress(MemoryFault):
            pages = list(self._pages())
            self._free(pages, [_within(page.slots["ip"], code) for page in pages])

    def save(self) -> Restore:
        """Return a function that restores the host's part; the machine saves the slots."""
        return attributes(self, "recorder", "_initialized", "_suspended", "_off", "_modules")

    def _update(self) -> int:
        """Convert the sites in fresh slots; return how many there were (`ftrace_update_code`)."""
        pages = list(self._pages())
        fresh = [_fresh(page.slots["flags"]) for page in pages]
        known = [self._records.rows_of(page.slots["ip"]) >= 0 for page in pages]
        new = [a & ~b for a, b in zip(fresh, known, strict=True)]
        ips = np.concatenate(
            [np.empty(0, np.uint64), *(p.slots["ip"][n] for p, n in zip(pages, new, strict=True))]
        ).astype(np.uint64)
        if len(ips):
            self._convert(self._by_module(ips))
        for page, rows in zip(pages, new, strict=True):
            page.slots["flags"][rows] |= np.array(SlotFlag.CONVERTED, page.slots["flags"].dtype)
        self._free(pages, [a & b for a, b in zip(fresh, known, strict=True)])
        self._memory.write(
            self._symbols["ftrace_hash"], bytes(abi.FTRACE_HASHSIZE * self._memory.pointer_size)
        )
        self._write("ftraced_trigger", 0)
        return len(ips)

    def _by_module(self, ips: Addresses) -> list[Found]:
        """Group `ips` by module, the kernel's first; the order within a group stays."""
        rest = np.ones(len(ips), np.bool_)
        found: list[Found] = []
        for name, code in self._modules.items():
            of_module = _within(ips, code)
            rest &= ~of_module
            if of_module.any():
                found.append((ips[of_module], name))
        return [(ips[rest], None), *found] if rest.any() else found

    def _free(self, pages: Sequence[_Page], rows: Sequence[NDArray[np.bool_]]) -> None:
        """Put slots on the guest's free list, in order."""
        places = np.concatenate(
            [np.empty(0, np.uint64)]
            + [page.addresses[row] for page, row in zip(pages, rows, strict=True)]
        )
        if not len(places):
            return
        head = self._symbols["ftrace_free_records"]
        following = np.append(places[1:], np.uint64(self._memory.read_int(head)))
        done = 0
        for page, row in zip(pages, rows, strict=True):
            count = int(row.sum())
            page.slots["next"][row] = following[done : done + count]
            page.slots["ip"][row] = 0
            page.slots["flags"][row] = SlotFlag.FREE
            done += count
        self._memory.write_int(head, int(places[0]))

    def _pages(self) -> Iterator[_Page]:
        """Yield the pages of slots, in order. Raises `MemoryFault` for a corrupt list."""
        facts = self._port.facts
        header = abi.ftrace_page(facts.byteorder, facts.pointer_size)
        slot = abi.dyn_ftrace(facts.byteorder, facts.pointer_size)
        each = (abi.FTRACE_PAGE_SIZE - header.itemsize) // slot.itemsize
        seen: set[int] = set()
        at = self._memory.read_int(self._symbols["ftrace_pages_start"])
        while at:
            text = self._memory.view(at, abi.FTRACE_PAGE_SIZE)
            head = text[: header.itemsize].view(header)[0]
            used = int(head["index"])
            if at in seen or used > each:
                raise MemoryFault(at, abi.FTRACE_PAGE_SIZE, "not a page of call sites")
            seen.add(at)
            first = header.itemsize
            yield _Page(at + first, text[first : first + used * slot.itemsize].view(slot))
            at = int(head["next"])

    def _wanted(self, suspended: bool) -> int:
        """Return the function that mcount should call."""
        records = self._initialized and not suspended
        return self._symbols["ftrace_record_ip" if records else "ftrace_stub"]

    def _record(self, suspended: bool) -> None:
        """Make mcount call the wanted function (`ftrace_mcount_set`). Raises `FtraceBug`."""
        if self._wanted(suspended) != self.recorder:
            self._change(self.mcount_edit(suspended))
            self.recorder = self._wanted(suspended)

    def _settle(self) -> None:
        """Run the CPU that is changing the table until it has released its lock."""

        def changing(vcpu: Vcpu) -> bool:
            return bool(self._read("ftrace_shutdown_lock") and vcpu.local["irqs_disabled"])

        self._machine.scheduler.run_while(changing, self._machine.vcpus, _LIMIT_NS)

    def _read(self, name: str) -> int:
        return self._memory.read_int(self._symbols[name], _INT)

    def _write(self, name: str, value: int) -> None:
        self._memory.write_int(self._symbols[name], value, _INT)


def _fresh(flags: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which slots hold a site that is not converted yet."""
    mask = np.array(SlotFlag.FREE | SlotFlag.CONVERTED, flags.dtype)
    fresh: NDArray[np.bool_] = (flags & mask) == 0
    return fresh


def _within(ips: Addresses, code: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Return which of `ips` are in one of the ranges."""
    inside = np.zeros(len(ips), np.bool_)
    for start, end in code:
        inside |= (ips >= np.uint64(start)) & (ips < np.uint64(end))
    return inside
