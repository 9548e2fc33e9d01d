"""Kprobe events: kprobe_events, kprobe_profile, and what /sys/kernel/debug/kprobes shows.

Source: kernel/trace/trace_kprobe.c and kernel/kprobes.c, 6.1.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence

from ..errors import CommandError, DynftraceError, TracefsError
from ..events.fetch import Source
from ..events.probe import ProbeDefinition, parse_kprobe, refused
from ..ftrace.ftrace import Ftrace
from ..ftrace.kprobes import BoundaryError, Kprobe, Kprobes
from ..memento import Restore, attributes, in_order
from .dynevents import EventsFile
from .number import switch as switch_number
from .probes import Probe, ProbeEvent, Probes
from .tree import Directory, File, Node


class KprobeEvents(Probes):
    """All kprobe events of a machine."""

    subsystem = "trace_kprobe"

    def __init__(
        self,
        kprobes: Kprobes,
        ftrace: Ftrace,
        switched: Callable[[bool], None],
        *arguments: object,
    ) -> None:
        """`switched` is called while an event is switched; the rest is passed to `Probes`."""
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.kprobes = kprobes
        self._ftrace = ftrace
        self._switched = switched
        self._table = 0
        abi = ftrace.port.facts.abi
        rows = {each.name: row for row, each in enumerate(abi.pt_regs)}
        self._registers = rows | {name: rows[own] for name, own in abi.probe_names.items()}
        self._arguments = tuple(rows[each.name] for each in abi.arguments)

    # Parsing

    def parse(self, words: Sequence[str]) -> ProbeDefinition | None:
        """Parse a line; None if it is of another kind. Raises `CommandError`."""
        return parse_kprobe(words, self)

    def symbols(self, name: str) -> int:
        """Return the number of symbols of this name."""
        return len(self.kallsyms.addresses(name)) or len(
            self.kallsyms.addresses(self._ftrace.port.facts.abi.text_prefix + name)
        )

    def on_entry(self, symbol: str, offset: int) -> bool | None:
        """Return whether `symbol`+`offset` is a function's entry; None for an unknown symbol."""
        start = self._symbol(symbol)
        if start is None:
            return None
        return not offset or self._entry(start) == start + offset

    def source(self, *, entry: bool, returns: bool) -> Source:
        """Return the sources from which arguments can be fetched."""
        registers = self.kprobes.saves_registers or self.kprobes.breakpoints
        return Source(
            self.pointer_size,
            self._registers if registers else {},
            self._arguments,
            pushed=self._ftrace.port.facts.abi.link is None,
            entry=entry,
            returns=returns,
        )

    def _symbol(self, text: str) -> int | None:
        """Return the address of `[MOD:]SYM`."""
        module, colon, name = text.rpartition(":")
        prefix = self._ftrace.port.facts.abi.text_prefix
        owner = module if colon else None
        for each in dict.fromkeys((prefix + name, name)):
            address = self.kallsyms.address(each, owner)
            if address is not None:
                return address
        return None

    def _entry(self, start: int) -> int:
        """Return where a function is probed whose first instruction is at `start`.

        It is the call site if the function begins with it, or if kprobes can be nowhere else.
        """
        if self.kprobes.breakpoints:
            return start
        symbol = self.kallsyms.lookup(start)
        ips = self._ftrace.records.table["ip"]
        end = start + (symbol.size if symbol is not None else 0)
        inside = ips[(ips >= start) & (ips < end)]
        return int(inside[0]) if len(inside) else start

    # Registration

    def register(self, words: Sequence[str], probe: Probe) -> None:
        """Find the address of `probe` and prepare a kprobe there. Raises `CommandError`."""
        definition = probe.definition
        try:
            address = self._address(definition)
            if address is None:
                if ":" in definition.symbol:
                    return  # its module may be loaded later
                raise self.bad_address(words)
            self._prepare(probe, address)
        except CommandError:
            raise
        except BoundaryError:
            reason = "Probe point is not an instruction boundary"
            raise refused(words, 1, 0, reason, errno.EILSEQ) from None
        except TracefsError as error:
            if error.errno == errno.ENOENT:
                raise self.bad_address(words) from None
            reason = "Failed to register probe event"
            if error.errno == errno.EOPNOTSUPP:
                reason = str(error).partition(": ")[2]
            raise refused(words, 1, 0, reason, error.errno) from None

    def _address(self, definition: ProbeDefinition) -> int | None:
        if not definition.symbol:
            return definition.offset
        start = self._symbol(definition.symbol)
        if start is None:
            return None
        if not definition.offset:
            return self._entry(start)
        return (start + definition.offset) % (1 << 8 * self.pointer_size)

    def _prepare(self, probe: Probe, address: int) -> None:
        self.kprobes.prepare(address)
        definition = probe.definition
        active = 0
        if definition.kind == "r":
            self._check_returns()
            active = definition.maxactive or max(10, 2 * len(self.files.machine.vcpus))
        self.kprobes.settle()
        probe.store(address, active)
        probe.address = address
        if probe.event.file.attached:
            probe.set("enabled", 1)
        everyone = tuple(dict.fromkeys((*self.probes(), probe)))
        self._rebuild(everyone)
        if probe.event.file.attached:
            self._arm(everyone)

    def _check_returns(self) -> None:
        if not (self.kprobes.returns):
            reason = f"{self._ftrace.port.facts.name} has no return probes"
            raise TracefsError(errno.EOPNOTSUPP, f"Operation not supported: {reason}")

    def unregister(self, probe: Probe) -> None:
        """Take the probe out of the guest's table."""
        if not probe.guest:
            return
        self._arm(self.probes())
        self.kprobes.settle()
        self._rebuild(self.probes())
        probe.free()
        probe.address = None

    def _rebuild(self, probes: Sequence[Probe]) -> None:
        """Write the guest's table: the probes of each address, in order."""
        at: dict[int, list[Probe]] = {}
        for each in probes:
            if each.address is not None and each.guest:
                at.setdefault(each.address, []).append(each)
        for chain in at.values():
            for each, after in zip(chain, [*chain[1:], None], strict=True):
                each.set_next(0 if after is None else after.guest)
        first = {address: chain[0].guest for address, chain in at.items()}
        old = self._table
        self._table = self.kprobes.write_table(first, self.files.blocks.place)
        if old:
            self.files.blocks.free(old)

    def switch(self, event: ProbeEvent, on: bool) -> None:
        """Arm or disarm the probes of an event. Raises `TracefsError` and `FtraceBug`."""
        if on:
            self._switched(True)
            self.kprobes.follow_memory()
        for each in event.members:
            if each.guest:
                each.set("enabled", on)
        try:
            self._arm(self.probes())
        except DynftraceError:
            for each in event.members:
                if each.guest:
                    each.set("enabled", not on)
            raise
        if not on:
            self._switched(False)

    def _arm(self, probes: Sequence[Probe]) -> None:
        made = (each for each in probes if each.address is not None and each.event.file.attached)
        self.kprobes.arm([each.address for each in made if each.address is not None])

    # Modules

    def module_coming(self, name: str) -> None:
        """Register the probes that wait for module `name`."""
        for each in self.probes():
            if each.address is not None or not each.definition.symbol.startswith(f"{name}:"):
                continue
            address = self._address(each.definition)
            if address is not None:
                try:
                    with self._ftrace.change(by_user=False):
                        self._prepare(each, address)
                except TracefsError:
                    each.free()

    def module_gone(self, start: int, end: int) -> None:
        """Unregister the probes in [start, end), whose text is gone."""
        gone = [
            each
            for each in self.probes()
            if each.address is not None and start <= each.address < end
        ]
        if not gone:
            return
        self.kprobes.settle()
        for each in gone:
            each.address = None
        self.kprobes.forget(lambda address: start <= address < end)
        self._rebuild(self.probes())
        for each in gone:
            each.free()

    def set_enabled(self, on: bool) -> None:
        """Let armed kprobes change text, or not. Raises as `switch`."""
        before = self.kprobes.enabled
        self.kprobes.enabled = on
        try:
            self._arm(self.probes())
        except DynftraceError:
            self.kprobes.enabled = before
            raise

    def listed(self) -> list[tuple[Kprobe, Probe]]:
        """Return the registered kprobes with their probes, by address."""
        found = [
            (self.kprobes.prepare(each.address), each)
            for each in self.probes()
            if each.address is not None
        ]
        return sorted(found, key=lambda pair: pair[0].address)

    def save(self) -> Restore:
        """Return a function that restores all probes."""
        return in_order(attributes(self, "_table"), self.kprobes.save(), super().save())


class Profile(File):
    """How often each kprobe was hit, and how often it was missed."""

    def __init__(self, kprobes: KprobeEvents) -> None:
        self._kprobes = kprobes

    def read(self) -> str:
        """Return one line for each definition."""
        lines = []
        for each in self._kprobes.probes():
            row = each.read() if each.guest else None
            hit, missed = (0, 0) if row is None else (int(row["nhit"]), int(row["nmissed"]))
            lines.append(f"  {each.definition.event:<44} {hit:15d} {missed:15d}\n")
        return "".join(lines)


class KprobeList(File):
    """The registered kprobes."""

    def __init__(self, kprobes: KprobeEvents) -> None:
        self._kprobes = kprobes

    def read(self) -> str:
        """Return address, kind, place and state of each."""
        armed = self._kprobes.kprobes.armed
        digits = 2 * self._kprobes.pointer_size
        lines = []
        for kprobe, probe in self._kprobes.listed():
            kind = "r" if probe.definition.kind == "r" else "k"
            state = "" if kprobe.address in armed else "[DISABLED]"
            state += "[FTRACE]" if kprobe.site else ""
            lines.append(
                f"{kprobe.address:0{digits}x}  {kind}  "
                f"{kprobe.name}+0x{kprobe.offset:x}  {kprobe.module or ' '} {state}\n"
            )
        return "".join(lines)


class Enabled(File):
    """Whether armed kprobes change text: 0 disarms all, 1 arms them again."""

    mode = 0o600

    def __init__(self, kprobes: KprobeEvents) -> None:
        self._kprobes = kprobes

    def read(self) -> str:
        """Return 1 or 0."""
        return f"{int(self._kprobes.kprobes.enabled)}\n"

    def write(self, text: str) -> None:
        """Accept 0 or 1."""
        self._kprobes.set_enabled(switch_number(text))


def files(kprobes: KprobeEvents) -> Mapping[str, Node]:
    """Return the files of this module by name."""
    if not kprobes.kprobes.available:
        return {}
    return {
        "kprobe_events": EventsFile(kprobes.dynamic, kprobes),
        "kprobe_profile": Profile(kprobes),
    }


def debug_files(kprobes: KprobeEvents) -> Mapping[str, Directory]:
    """Return the directory `kprobes` of debugfs, by its path."""
    if not kprobes.kprobes.available:
        return {}
    entries = {"enabled": Enabled(kprobes), "list": KprobeList(kprobes)}
    return {"/sys/kernel/debug/kprobes": Directory(entries)}
