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
from .encodingtext import Place, encoding_lines


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
        ftrace, records = self._ftrace, self._ftrace.records
        sites = records.sites(slice(row, row + 1))
        ip = int(sites.ip[0])
        now = self._memory.read(ip, int(ftrace.port.lengths(sites)[0]))
        shown = [self.lines(insn) for insn in self._disasm.site(ip, now)]
        if records.table["flags"][row] & Flag.ENABLED:
            return shown
        edit = ftrace.port.make_call(sites, ftrace.target_of(row))
        if not edit.reachable[0]:
            return shown
        start = int(edit.address[0]) - ip
        call = edit.row(edit.replacement, 0)
        text = now[:start] + call + now[start + len(call) :]
        for insn in self._disasm.site(ip, text):
            at = insn.address - ip
            if now[at : at + len(insn.data)] != insn.data:
                shown.append(self.lines(insn, "when enabled"))
        return shown

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
