"""The bit fields of call sites as they are, and of what they become when enabled.

The fields are the port's (`Port.encoding`); beside those that say a distance stand the
places a call may want to go: what the instruction calls, ftrace_caller, the modules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ftrace.ftrace import Ftrace
from ..ftrace.records import Flag
from ..machine.memory import Memory
from ..module import Module
from .disasm import Disassembler, Insn
from .encodingtext import Place, away, encoding_lines


class EncodingReader:
    """Reads instructions of one machine; each comes as the lines of its view."""

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

    def site(self, row: int) -> list[list[str]]:
        """The site of record `row` as it is, and what would change if it were enabled.

        Raises `MemoryFault`, and `MissingSymbolError` for a kernel without ftrace_caller.
        """
        now, enabled = self._now(row), self._enabled(row)
        before = {insn.address: insn.data for insn in now}
        changed = [insn for insn in enabled if before.get(insn.address) != insn.data]
        return [
            *map(self.lines, now),
            *(self.lines(insn, "when enabled") for insn in changed),
        ]

    def out_of_reach(self, row: int) -> tuple[str, ...]:
        """Why the call of record `row` goes through a stub: how far it reaches, and where not.

        Nothing where it needs none. Raises as `site` does.
        """
        for insn in self._enabled(row) or self._now(row):
            encoding = self._ftrace.port.encoding(insn.address, insn.data)
            if encoding is None or encoding.reach is None:
                continue
            first, last = encoding.reach
            for name, address in self._ftrace.entry.callers.items():
                if not first <= address <= last:
                    left, right = away(first - insn.address), away(last - insn.address)
                    return (
                        f"{name} is out of reach, {away(address - insn.address)} from the site:",
                        f"its call reaches {left} to {right}",
                    )
        return ()

    def _now(self, row: int) -> list[Insn]:
        """The site as it is."""
        sites = self._ftrace.records.sites(slice(row, row + 1))
        ip = int(sites.ip[0])
        size = int(self._ftrace.port.lengths(sites)[0])
        return list(self._disasm.site(ip, self._memory.read(ip, size)))

    def _enabled(self, row: int) -> list[Insn]:
        """The site as it would be; nothing where it is enabled, or cannot be."""
        ftrace, records = self._ftrace, self._ftrace.records
        if records.table["flags"][row] & Flag.ENABLED:
            return []
        sites = records.sites(slice(row, row + 1))
        edit = ftrace.port.make_call(sites, ftrace.target_of(row))
        if not edit.reachable[0]:
            return []
        ip = int(sites.ip[0])
        now = self._memory.read(ip, int(ftrace.port.lengths(sites)[0]))
        start = int(edit.address[0]) - ip
        call = edit.row(edit.replacement, 0)
        return list(self._disasm.site(ip, now[:start] + call + now[start + len(call) :]))

    def lines(self, insn: Insn, when: str = "") -> list[str]:
        """The view of one instruction; `when` says of what moment it is."""
        text = self._disasm.text(insn)
        fields = self._ftrace.port.encoding(insn.address, insn.data)
        return encoding_lines(
            insn, f"{text}  ({when})" if when else text, fields, self._places(insn)
        )

    def _places(self, insn: Insn) -> list[Place]:
        """Where a call may want to go; of a branch within its function where it goes alone."""
        if insn.target is not None and self._same_function(insn.address, insn.target):
            return [Place(self._disasm.name(insn.target) or "target", insn.target)]
        entry = self._ftrace.entry
        places = [Place(name, address) for name, address in entry.callers.items()]
        places += [Place(f"{each.name}'s start", each.base) for each in self._modules()]
        if insn.target is not None and insn.target not in [each.address for each in places]:
            places.append(Place(self._disasm.name(insn.target) or "target", insn.target))
        return places

    def _same_function(self, first: int, second: int) -> bool:
        symbol = self._ftrace.kallsyms.lookup(first)
        return symbol is not None and symbol == self._ftrace.kallsyms.lookup(second)
