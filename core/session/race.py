"""A race between a CPU and a patch, tried at every position.

A CPU runs to an instruction of a call site, or to the instruction before or after the site. Then a
method of the port enables or disables the site, and the machine runs on. Each try begins at the
same checkpoint, and the last one leaves the machine as it was before. So the same machine always
gives the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from ..abi import TraceType
from ..errors import (
    DynftraceError,
    GuestError,
    GuestHang,
    GuestInterrupted,
    GuestOops,
    UsageError,
)
from ..ftrace.ops import FtraceHash
from ..kernel.workloads import workload_names
from ..machine.function import kernel_toc
from ..machine.vcpu import Vcpu
from ..memento import Restore
from ..views.call_site import find_sites
from ..views.disasm import Insn
from . import checkpoint
from .boot import Boot

REACH_NS = 20_000_000
"""Time limit for a CPU to reach the site, in virtual ns."""

AFTER_NS = 20_000_000
"""Virtual ns that the machine runs on after the patch, at most."""

_FUNCTION, _NOP = "function", "nop"


class Fate(Enum):
    """What became of a CPU."""

    FINE = "fine"
    LOST = "lost"
    """It oopsed, and its TOC pointer belongs to neither the kernel nor a module."""
    OOPS = "oops"
    HANG = "hang"
    STALE = "stale"
    """It executed the old text."""
    EVENT_LOST = "event lost"
    """It executed the new text, and its call was not recorded."""
    UNREACHED = "not reached"
    """No CPU came to the position."""


@dataclass(frozen=True, slots=True)
class Result:
    """The end of one try."""

    fate: Fate
    detail: str = ""
    """What was lost, or the reason of the oops."""

    @property
    def word(self) -> str:
        """The fate in a word or two, without the reason of an oops."""
        return f"lost {self.detail}" if self.fate is Fate.LOST else self.fate.value

    @property
    def reason(self) -> str:
        """The reason of an oops, or ""."""
        return "" if self.fate is Fate.LOST else self.detail

    @property
    def reached(self) -> bool:
        """Whether a CPU came to the position."""
        return self.fate is not Fate.UNREACHED

    @property
    def bad(self) -> bool:
        """Whether the patch was not safe for the CPU."""
        return self.reached and self.fate is not Fate.FINE


@dataclass(frozen=True, slots=True)
class Row:
    """A position, and what became of the CPU there with each method."""

    number: int
    """From 1."""
    enables: bool
    """Whether the patch enables the site; else it disables it."""
    address: int
    offset: int
    """Bytes from the start of the site."""
    inside: bool
    """Whether the position is in the middle of the site."""
    text: str
    """The instruction that the CPU is about to execute there, before the patch."""
    results: tuple[Result, ...]
    """One for each method."""

    @property
    def place(self) -> str:
        """Where the CPU is, relative to the site."""
        return f"site{self.offset:+d}" + (" inside" if self.inside else "")


@dataclass(frozen=True, slots=True)
class Table:
    """The race of one call site."""

    name: str
    ip: int
    watched: str
    """What `patch watch` calls the site: its function, or the ip if that has several sites."""
    workload: str | None
    """The workload that brings a CPU to the site; None if a CPU gets there without one."""
    methods: tuple[str, ...]
    rows: tuple[Row, ...]

    def commands(self, row: Row, method: str) -> str:
        """Return the commands that bring a CPU to `row`, to run before the site is patched."""
        start = "" if row.enables else "echo function > current_tracer; "
        until = f"until {row.address:#x}" + (f" {self.workload}" if self.workload else "")
        tracer = _FUNCTION if row.enables else _NOP
        return (
            f"echo {self.name} > set_ftrace_filter; {start}patch {method}; "
            f"patch watch {self.watched}; echo {tracer} > current_tracer; {until}"
        )


class Race:
    """The race of the site at `ip`, in the machine `boot`."""

    def __init__(
        self,
        boot: Boot,
        ip: int,
        methods: Sequence[str],
        progress: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`progress` is called with how far it has come.

        Raises `UsageError` unless the machine is idle: no tracer, no patch under way.
        """
        boot.ftrace.patcher.check_idle()
        if boot.array.ops is None:
            raise UsageError("the kernel has no tracer: no call site can be enabled")
        if boot.ftrace.disabled:
            raise UsageError("ftrace is off after a bug: type `reboot` or `back`")
        if boot.array.tracer != _NOP:
            raise UsageError("a tracer is in use: type `echo nop > current_tracer` first")
        self._boot = boot
        self._ip = ip
        records, prefix = boot.ftrace.records, boot.port.facts.abi.text_prefix
        row = int(records.rows_of(np.array([ip], np.uint64))[0])
        self._name = name = records.names[row].removeprefix(prefix)
        self._watched = name if find_sites(records, name, prefix)[0] == ip else f"{ip:#x}"
        self._methods = tuple(methods)
        self._progress = progress

    def run(self, workload: str | None) -> Table:
        """Try every position. `workload` brings a CPU to the site; None chooses one.

        Raises `GuestError` if no CPU comes to the site, or on `stop`.
        """
        boot, patcher = self._boot, self._boot.ftrace.patcher
        restore = checkpoint.save(boot)
        try:
            patcher.watching = False
            boot.array.set_hash(False, FtraceHash.of(np.array([self._ip], np.uint64)))
            off = checkpoint.save(boot)
            enabling = [self._waiting(off, method, True) for method in self._methods]
            workload = self._workload(enabling, workload)
            off()
            boot.array.set_tracer(_FUNCTION)
            on = checkpoint.save(boot)
            disabling = [self._waiting(on, method, False) for method in self._methods]
            rows: list[Row] = []
            for enables, base, waiting in ((True, off, enabling), (False, on, disabling)):
                base()
                positions = list(self._positions())
                for insn, offset, size in positions:
                    self._progress(f"race: position {len(rows) + 1}")
                    site = range(insn.address - offset, insn.address - offset + size)
                    results = tuple(
                        self._try(each, insn, site, enables, workload) for each in waiting
                    )
                    if not any(each.reached for each in results):
                        continue
                    text = boot.disassembler.text(insn)
                    inside, number = 0 < offset < size, len(rows) + 1
                    rows.append(Row(number, enables, insn.address, offset, inside, text, results))
            return Table(self._name, self._ip, self._watched, workload, self._methods, tuple(rows))
        except GuestInterrupted:
            # The machine is as before, so this is not an interrupted action of the journal.
            raise GuestError("the race was interrupted; the machine is as it was") from None
        finally:
            restore()
            self._progress("")

    def _workload(self, waiting: Sequence[Restore], wanted: str | None) -> str | None:
        """Return the workload that brings a CPU to the site in most of these states, or None.

        Raises `GuestError` if nothing does.
        """
        boot = self._boot
        if not boot.machine.alive:
            raise GuestError(boot.machine.scheduler.standstill)
        try:
            known = workload_names(boot.machine.memory, boot.kallsyms)
        except DynftraceError:
            known = []
        best: tuple[int, str | None] = (0, None)
        for each in [None, *known] if wanted is None else [wanted]:
            led = [self._lead(state, self._ip, each) for state in waiting]
            count = sum(isinstance(found, Vcpu) for found in led)
            if count == len(waiting):
                return each
            best = max(best, (count, each), key=lambda choice: choice[0])
        if not best[0]:
            by = "by itself, and no workload calls it" if wanted is None else f"by {wanted}"
            raise GuestError(f"no CPU comes to {self._name} {by}")
        return best[1]

    def _lead(self, base: Restore, address: int, workload: str | None) -> Vcpu | Result:
        """Restore `base` and run until a CPU is about to execute `address`, and return it.

        Return the result of the try instead if no CPU comes there.
        """
        base()
        machine = self._boot.machine
        try:
            ended = _never if workload is None else machine.requests.start_workload(workload)
            return machine.scheduler.run_to(
                {address}, lambda vcpu: True, REACH_NS, self._name, ended
            )
        except GuestInterrupted:
            raise
        except GuestOops as oops:
            return Result(Fate.OOPS, str(machine.oopses[-1] if machine.oopses else oops))
        except (GuestError, UsageError):
            return Result(Fate.UNREACHED)

    def _positions(self) -> Iterator[tuple[Insn, int, int]]:
        """Yield the instructions of the site and its neighbours, each with its offset in bytes.

        Also the site's size in bytes. Delay slots are no positions: no CPU stops there.
        """
        boot = self._boot
        state = boot.ftrace.state_at(self._ip)
        start = state.address
        size = max(len(state.expected), self._ip + len(state.compiled) - start)
        port = boot.port
        symbol = boot.kallsyms.lookup(self._ip)
        first = start if symbol is None else symbol.address
        before = boot.instructions(first, start - first) if start > first else []
        site = boot.disassembler.site(start, boot.machine.memory.read(start, size))
        after = boot.instructions(start + size, 1)
        slot = False
        for insn in (*before[-2:], *site, *after):
            near = insn.address >= start or insn.end == start
            if near and not slot:
                yield insn, insn.address - start, size
            slot = port.has_delay_slot(insn.data) and not slot

    def _waiting(self, base: Restore, method: str, enables: bool) -> Restore:
        """Return the state in which a patch by `method` waits to write the site."""
        base()
        boot, patcher = self._boot, self._boot.ftrace.patcher
        patcher.method, patcher.watching, patcher.watched_ip = method, True, self._ip
        boot.array.set_tracer(_FUNCTION if enables else _NOP)
        patcher.end_of_command()
        patcher.watching = False
        return checkpoint.save(boot)

    def _try(
        self, waiting: Restore, insn: Insn, site: range, enables: bool, workload: str | None
    ) -> Result:
        """Lead a CPU to `insn`, patch `site`, run on, and return what became of the CPU."""
        boot = self._boot
        machine, patcher = boot.machine, boot.ftrace.patcher
        vcpu = self._lead(waiting, insn.address, workload)
        if isinstance(vcpu, Result):
            return vcpu
        deaths, pid = len(machine.oopses), int(vcpu.local["pid"])
        calls = self._calls(pid)
        missed: Result | None = None
        try:
            while patcher.patch is not None:
                boot.ftrace.text.next_phase()
            if insn.address <= site.start:
                missed = self._missed(site, pid, calls, enables)
            machine.requests.finish_started(AFTER_NS)
            if machine.run(AFTER_NS // 10):
                raise GuestInterrupted("the race")
        except GuestInterrupted:
            raise
        except GuestHang:
            if len(machine.oopses) == deaths:
                return Result(Fate.HANG)
        except GuestError:
            pass  # an oops, which is in the list
        if len(machine.oopses) > deaths:
            return self._dead(machine.oopses[deaths])
        return missed or Result(Fate.FINE)

    def _missed(self, site: range, pid: int, calls: int, enables: bool) -> Result | None:
        """Run the task `pid` to the end of `site`; return what is wrong with its events."""
        machine = self._boot.machine
        try:
            machine.scheduler.run_to(
                {site.stop}, lambda vcpu: int(vcpu.local["pid"]) == pid, REACH_NS, self._name
            )
        except GuestInterrupted:
            raise
        except GuestError:
            pass  # it has passed the site already, or oopsed
        if (self._calls(pid) > calls) == enables:
            return None
        stale = any(vcpu.stale_text(site.start, len(site)) is not None for vcpu in machine.vcpus)
        return Result(Fate.STALE if stale or not enables else Fate.EVENT_LOST)

    def _calls(self, pid: int) -> int:
        """Return how many calls of the site by the task `pid` are in the trace."""
        table = self._boot.ring.events()
        events = table.events
        same = (events["type"] == TraceType.FN) & (events["pid"] == pid)
        ips = table.addresses[events["ip"][same]]
        return int(np.count_nonzero(ips == np.uint64(self._ip)))

    def _dead(self, oops: GuestOops) -> Result:
        """Return the result of a try that ended in `oops`."""
        boot = self._boot
        toc = boot.port.facts.abi.toc
        if toc is not None:
            name = toc.register.name
            if boot.machine.registers(oops.cpu)[name] not in self._tocs():
                return Result(Fate.LOST, name)
        return Result(Fate.OOPS, str(oops))

    def _tocs(self) -> set[int]:
        """Return the TOC pointers of the kernel and its modules."""
        boot = self._boot
        facts, memory = boot.port.facts, boot.machine.memory
        found = {kernel_toc(facts, memory, boot.kallsyms)}
        return found | {module.linked.toc for module in boot.modules.loaded}


def _never() -> None:
    """Return None: without a workload, none can end."""
