"""The bit fields of call sites, as they are now and as they would be when enabled.

The port describes the fields (`Port.encoding`). If they hold a distance, the view includes
addresses that a call may have to reach: its target, the callers in entry.S, and modules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..encoding import Encoding
from ..errors import MemoryFault
from ..ftrace.ftrace import Ftrace
from ..machine.memory import Memory
from ..modules.module import Module
from .disasm import Disassembler, Insn


@dataclass(frozen=True, slots=True)
class Goal:
    """An address that a call may have to reach."""

    name: str
    address: int


@dataclass(frozen=True, slots=True)
class EncodingView:
    """The bit fields of one instruction."""

    insn: Insn
    text: str
    """The instruction with the name of its target."""
    encoding: Encoding | None
    """Its fields; None if the port does not describe this instruction."""
    goals: tuple[Goal, ...] = ()
    if_enabled: bool = False
    """Whether it is the instruction that enabling the site would write, not one in memory."""


@dataclass(frozen=True, slots=True)
class OutOfReach:
    """A call that cannot reach its target without a stub; all distances are in bytes."""

    caller: str
    """Name of the call's target."""
    distance: int
    """Distance from the call to `caller`."""
    reach: tuple[int, int]
    """Minimum and maximum distance that the call can encode."""


class EncodingReader:
    """Reads the bit fields of one machine's instructions."""

    def __init__(
        self,
        ftrace: Ftrace,
        memory: Memory,
        disasm: Disassembler,
        modules: Callable[[], Sequence[Module]],
    ) -> None:
        self._ftrace = ftrace
        self._memory = memory
        self._disasm = disasm
        self._modules = modules

    def site(self, ip: int) -> list[EncodingView]:
        """Return the instructions of the site at `ip`, then those that enabling it would change.

        Raises `UsageError` if no record begins at `ip`, `MemoryFault` if the site is not
        mapped, and `MissingSymbolError` for a kernel that cannot be traced.
        """
        now, enabled = self._forms(ip)
        before = {insn.address: insn.data for insn in now}
        changed = [insn for insn in enabled if before.get(insn.address) != insn.data]
        return [
            *map(self.at, now),
            *(self.at(insn, if_enabled=True) for insn in changed),
        ]

    def out_of_reach(self, ip: int) -> OutOfReach | None:
        """Return why the call at `ip` uses a stub; None if it uses none. Raises as `site`."""
        now, enabled = self._forms(ip)
        for insn in enabled or now:
            encoding = self._ftrace.port.encoding(insn.address, insn.data)
            if encoding is None or encoding.reach is None:
                continue
            first, last = encoding.reach
            for name, address in self._ftrace.entry.callers.items():
                if not first <= address <= last:
                    reach = first - insn.address, last - insn.address
                    return OutOfReach(name, address - insn.address, reach)
        return None

    def reach(self, ip: int) -> tuple[int, int] | None:
        """Return the first and last address that the call at `ip` can reach; None for any.

        Raises as `site`.
        """
        now, enabled = self._forms(ip)
        for insn in enabled or now:
            encoding = self._ftrace.port.encoding(insn.address, insn.data)
            if encoding is not None and encoding.reach is not None:
                return encoding.reach
        return None

    def at(self, insn: Insn, *, if_enabled: bool = False) -> EncodingView:
        """Return the bit fields of `insn`."""
        return EncodingView(
            insn,
            self._disasm.text(insn),
            self._ftrace.port.encoding(insn.address, insn.data),
            tuple(self._goals(insn)),
            if_enabled,
        )

    def _forms(self, ip: int) -> tuple[tuple[Insn, ...], tuple[Insn, ...]]:
        """Return the instructions of a site as they are, and as they would be if enabled."""
        _ = self._ftrace.entry  # raises for a kernel that cannot be traced
        state = self._ftrace.state_at(ip)
        if state.text is None:
            raise MemoryFault(ip, len(state.compiled))
        now = self._disasm.site(ip, state.text)
        if state.if_enabled is None:
            return now, ()
        return now, self._disasm.site(ip, state.if_enabled)

    def _goals(self, insn: Insn) -> list[Goal]:
        """Return the addresses that a call may have to reach; for a local branch, its target."""
        if insn.target is not None and self._same_function(insn.address, insn.target):
            return [Goal(self._disasm.name(insn.target) or "target", insn.target)]
        entry = self._ftrace.entry
        goals = [Goal(name, address) for name, address in entry.callers.items()]
        goals += [Goal(f"{each.name}'s start", each.base) for each in self._modules()]
        if insn.target is not None and insn.target not in [each.address for each in goals]:
            goals.append(Goal(self._disasm.name(insn.target) or "target", insn.target))
        return goals

    def _same_function(self, first: int, second: int) -> bool:
        symbol = self._ftrace.kallsyms.lookup(first)
        return symbol is not None and symbol == self._ftrace.kallsyms.lookup(second)


def away(distance: int) -> str:
    """Return a distance in the largest unit that it fills: `+1.5 MB`."""
    for name, shift in (("EB", 60), ("PB", 50), ("TB", 40), ("GB", 30), ("MB", 20), ("KB", 10)):
        if abs(distance) > 0.99995 * (1 << shift):  # 1023.99 MB reads as 1 GB
            return f"{distance / (1 << shift):+.1f} {name}".replace(".0 ", " ")
    return f"{distance:+d} bytes"
