"""One call site as it was compiled, as ftrace expects it, and as it is.

Three texts of the same few instructions stand side by side: what the compiler
left, what must be there by the record's state, what guest memory holds. What it
left in a module is what insmod made of it; of the site itself there is a fourth
text then, that of the file, where a call has no target yet but a relocation. On
machines with instructions of several lengths the three can be cut differently;
a row ends where an instruction ends in all of them, if there is such a place
near by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..arch import ModuleStub, Sites
from ..errors import MemoryFault, MissingSymbolError
from ..ftrace.entry import CALLER
from ..ftrace.ftrace import Ftrace
from ..ftrace.ftraced import Ftraced
from ..ftrace.records import Flag, Records
from ..ftrace.sites import calls_in
from ..machine.memory import Memory
from .disasm import Disassembler, Insn
from .filetext import FileText

NOP, ENABLED, FAILED = "nop", "enabled", "failed"
UNFOUND, NOTED = "not found yet", "noted by ftraced"

ImageText = Callable[[int, int], "bytes | None"]
"""`size` bytes that the loaded files have for an address, relocated; None where they have none."""

Stored = Callable[[int, int], "FileText | None"]
"""`size` bytes that a module's file has for an address, not relocated; None without a file."""

_LEAD = 256
"""A site farther into its function is shown without the instructions before it, bytes."""

_MOST_ROW = 32
"""Bytes in which the three texts are expected to meet again."""


@dataclass(frozen=True, slots=True)
class Code:
    """Bytes and what they mean; several instructions are parted by `; `."""

    data: bytes
    asm: str


@dataclass(frozen=True, slots=True)
class SiteRow:
    """The same bytes of text in their forms."""

    address: int
    compiled: Code
    """As they were before ftrace changed them; of a module, as they were loaded."""
    expected: Code
    now: Code
    is_site: bool
    """Whether it is part of the call site, and not of the text around it."""
    in_file: Code | None = None
    """A site as the module's file has it, where that differs; a call has its relocation's name."""

    @property
    def changed(self) -> bool:
        """Whether it is no longer what was compiled or loaded."""
        return self.now.data != self.compiled.data

    @property
    def wrong(self) -> bool:
        """Whether it is not what ftrace expects, which looks at the site alone."""
        return self.is_site and self.now.data != self.expected.data


@dataclass(frozen=True, slots=True)
class CallSite:
    """A record and the text around it."""

    name: str
    module: str | None
    ip: int
    symbol: str
    """ip as the kernel prints it: `schedule+0x0/0x80`."""
    state: str
    """nop, enabled, or failed once ftrace refused to change it.

    Where ftraced finds sites: not found yet, or noted by ftraced and not converted.
    """
    users: int
    """ftrace_ops that want it."""
    ops: tuple[str, ...]
    """Their names."""
    via: tuple[str, int] | None
    """Name and address of the stub its call goes through, None where `caller` is in reach."""
    source: tuple[str, int] | None
    """File and line, where debug information has them."""
    readable: bool
    """Whether its memory is there; else `now` is empty."""
    reason: str
    """Why ftrace would refuse to change it, where it would and the architecture says."""
    rows: tuple[SiteRow, ...]
    caller: str = CALLER
    """What it calls, or would if it were enabled."""
    standing: str = ""
    """Why it stays as it is, or most of it when it is enabled and disabled, where that is so."""
    relocations: tuple[str, ...] = ()
    """Type and symbol of what is still to be done to the site in the module's file."""

    @property
    def relocated(self) -> bool:
        """Whether loading changed it, so that `compiled` is what insmod made."""
        return any(row.in_file is not None for row in self.rows)


def find_sites(records: Records, text: str, prefix: str = "") -> list[int]:
    """Rows of the records `text` names: `FUNC`, `FUNC [MODULE]`, or rec.ip as a 0x number.

    A name may leave out the `prefix` that names of code have.
    """
    if text[:2].lower() == "0x":
        try:
            row = records.find(int(text, 16))
        except (ValueError, OverflowError):
            return []
        return [] if row is None else [row]
    name, _, module = text.partition(" ")
    wanted = {name, prefix + name} if name else set()
    rows = [row for row, known in enumerate(records.names) if known in wanted]
    if module:
        rows = [row for row in rows if f"[{records.module_of(row)}]" == module.strip()]
    return rows


def state_of(records: Records, row: int) -> str:
    """One of `NOP`, `ENABLED`, `FAILED`."""
    record = records.table[row]
    if record["failed"]:
        return FAILED
    return ENABLED if int(record["flags"]) & Flag.ENABLED else NOP


def expected_text(ftrace: Ftrace, row: int) -> tuple[int, bytes]:
    """Where the site's text that ftrace keeps begins, and what it must be now."""
    sites = ftrace.records.sites(slice(row, row + 1))
    if ftrace.records.table["raw"][row]:
        return int(sites.ip[0]), ftrace.records.compiled[row].tobytes()
    try:
        target = ftrace.target_of(row)
    except MissingSymbolError:
        # Nothing was ever enabled, and a nop is the same whatever it replaced.
        target = int(sites.ip[0])
    edit = ftrace.port.make_nop(sites, target)
    enabled = int(ftrace.records.table["flags"][row]) & Flag.ENABLED
    text = edit.expected if enabled else edit.replacement
    return int(edit.address[0]), edit.row(text, 0)


def stub_of(ftrace: Ftrace, row: int) -> ModuleStub | None:
    """The stub an enabled call of record `row` goes through; None where it needs none."""
    try:
        caller = ftrace.target_of(row)
    except MissingSymbolError:
        return None
    edit = ftrace.port.make_call(ftrace.records.sites(slice(row, row + 1)), caller)
    found = [stub for via in edit.via for stub in ftrace.records.stubs_at(via)]
    return found[0] if found else None


def _standing(ftrace: Ftrace, row: int) -> str:
    """Why words of the site stay as they are when it is enabled and disabled; mostly nothing."""
    sites = ftrace.records.sites(slice(row, row + 1))
    size = int(ftrace.port.lengths(sites)[0])
    step = ftrace.port.facts.insn_align
    try:
        edit = ftrace.port.make_nop(sites, ftrace.target_of(row))
    except MissingSymbolError:
        return ""
    pairs = enumerate(zip(edit.row(edit.expected, 0), edit.row(edit.replacement, 0), strict=True))
    changed = max((at // step + 1 for at, (old, new) in pairs if old != new), default=0)
    if step == 1 or not edit.reachable[0] or size <= 2 * changed * step:
        return ""
    words = "word changes" if changed == 1 else f"{changed} words change"
    return f"only its first {words}: a task may stand at any of the others"


def call_site(
    ftrace: Ftrace,
    memory: Memory,
    disasm: Disassembler,
    row: int,
    *,
    image_text: ImageText = lambda address, size: None,
    file_text: Stored = lambda address, size: None,
    source_line: Callable[[int], tuple[str, int] | None] = lambda address: None,
    before: int = 2,
    after: int = 3,
) -> CallSite:
    """The call site of record `row`, with some instructions around it."""
    records = ftrace.records
    ip = int(records.table["ip"][row])
    length = int(ftrace.port.lengths(records.sites(slice(row, row + 1)))[0])
    left = records.compiled[row].tobytes()[:length]
    address, text = expected_text(ftrace, row)
    reader = _Reader(ftrace, memory, disasm, image_text, file_text)
    around = reader.around(ip, left, (address, text), before, after)
    ops = ftrace.users_of(row)
    stub = stub_of(ftrace, row)
    there = around.now[: len(text)]
    refused = around.readable and there != text
    return CallSite(
        name=records.names[row],
        module=records.module_of(row),
        ip=ip,
        symbol=ftrace.kallsyms.format(ip),
        state=state_of(records, row),
        users=len(ops),
        ops=tuple(each.name for each in ops),
        via=None if stub is None else (disasm.name(stub.address) or "stub", stub.address),
        source=source_line(ip + ftrace.port.facts.sites.source_offset),
        readable=around.readable,
        caller=records.caller_of(row),
        standing=_standing(ftrace, row),
        reason=ftrace.port.explain(ip, text, there) if refused else "",
        rows=around.rows,
        relocations=around.relocations,
    )


def unfound_site(
    ftrace: Ftrace,
    memory: Memory,
    disasm: Disassembler,
    ip: int,
    *,
    image_text: ImageText = lambda address, size: None,
    file_text: Stored = lambda address, size: None,
    source_line: Callable[[int], tuple[str, int] | None] = lambda address: None,
    before: int = 2,
    after: int = 3,
) -> CallSite:
    """The call of mcount at `ip`, which ftraced has made no record of yet: as `call_site`."""
    port, ftraced, mcount = ftrace.port, ftrace.ftraced, ftrace.mcount()
    assert ftraced is not None
    text = port.modify_call(Sites(np.array([ip], np.uint64)), mcount, mcount).expected[0].tobytes()
    reader = _Reader(ftrace, memory, disasm, image_text, file_text)
    around = reader.around(ip, text, (ip, text), before, after)
    symbol = ftrace.kallsyms.lookup(ip)
    noted = bool((ftraced.noted() == np.uint64(ip)).any())
    return CallSite(
        name=f"0x{ip:x}" if symbol is None else symbol.name,
        module=None if symbol is None else symbol.module,
        ip=ip,
        symbol=ftrace.kallsyms.format(ip),
        state=NOTED if noted else UNFOUND,
        users=0,
        ops=(),
        via=None,
        source=source_line(ip + port.facts.sites.source_offset),
        readable=around.readable,
        standing=_unrecorded(ftraced, noted),
        reason="",
        rows=around.rows,
        relocations=around.relocations,
    )


def unfound_sites(ftrace: Ftrace, image_text: ImageText, name: str, prefix: str = "") -> list[int]:
    """rec.ip of the calls of mcount in the function `name` that ftraced has not found yet.

    Nothing where a table lists the sites. `name` as in `find_sites`, but for the module.
    """
    if ftrace.ftraced is None or not name:
        return []
    found: list[int] = []
    for symbol in ftrace.kallsyms.functions():
        if symbol.name not in (name, prefix + name):
            continue
        text = image_text(symbol.address, symbol.size)
        ips = calls_in(ftrace.port, symbol.address, text or b"", ftrace.mcount())
        found += ips[ftrace.records.rows_of(ips) < 0].tolist()
    return found


def _unrecorded(ftraced: Ftraced, noted: bool) -> str:
    """Why a site that ftraced could find has no record."""
    if ftraced.off:
        return "no record: ftrace is off"
    if not noted and ftraced.suspended:
        return "no record: nothing is found while functions are traced"
    if not noted:
        return "no record: not called since mcount notes its callers, or no slot was free"
    if ftraced.stopped:
        return "ftraced has noted it, and was told to make no nops"
    return "ftraced has noted it, and makes it a nop when it wakes"


@dataclass(frozen=True, slots=True)
class _Around:
    """What is read at a site and around it."""

    rows: tuple[SiteRow, ...]
    now: bytes
    """From where its expected text begins."""
    readable: bool
    relocations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Reader:
    """What the texts of sites are read from."""

    ftrace: Ftrace
    memory: Memory
    disasm: Disassembler
    image_text: ImageText
    file_text: Stored

    def around(
        self, ip: int, left: bytes, wanted: tuple[int, bytes], before: int, after: int
    ) -> _Around:
        """The site at `ip`: `left` is what the compiler left, `wanted` where what is expected."""
        disasm, (address, text) = self.disasm, wanted
        start, end = _window(self.ftrace, ip, after)
        readable = True
        try:
            now = self.memory.read(start, end - start)
        except MemoryFault:
            now, readable = b"", False
        compiled = self.image_text(start, end - start) or now or bytes(end - start)
        compiled = _overlay(compiled, ip - start, left)
        expected = _overlay(compiled, address - start, text)
        stop = ip + len(left)
        rows: list[tuple[int, bytes, bytes, bytes]] = []
        for each in _rows(disasm, start, compiled, expected, now or compiled, range(ip, stop)):
            if each[0] >= stop and sum(at >= stop for at, *_ in rows) == after:
                break
            rows.append(each if readable else (*each[:3], b""))
        first = sum(at + len(old) <= ip for at, old, *_ in rows)
        shown = rows[max(first - before, 0) :]
        stored = self.file_text(start, end - start)
        pending = () if stored is None else stored.pending
        return _Around(
            rows=tuple(_site_row(disasm, each, range(ip, stop), stored) for each in shown),
            now=now[address - start :],
            readable=readable,
            relocations=tuple(
                f"{each.kind} {each.symbol}".rstrip() for each in pending if ip <= each.place < stop
            ),
        )


def _window(ftrace: Ftrace, ip: int, after: int) -> tuple[int, int]:
    """The addresses to decode: from the function's start, where it is near, to some way behind."""
    facts = ftrace.port.facts
    end = ip + facts.sites.size
    symbol = ftrace.kallsyms.lookup(ip)
    if symbol is None:
        return ip, end
    start = symbol.address if ip - symbol.address <= _LEAD else ip
    return start, max(end, min(symbol.address + symbol.size, end + after * facts.max_insn_size))


def _site_row(
    disasm: Disassembler,
    row: tuple[int, bytes, bytes, bytes],
    site: range,
    stored: FileText | None,
) -> SiteRow:
    """A row of `_rows` as text, with what the file has where it is part of the `site`."""
    at, *texts = row
    old, want, found = (Code(data, _asm(disasm, at, data, site)) for data in texts)
    is_site = at < site.stop and at + len(old.data) > site.start
    in_file = None if stored is None or not is_site else _in_file(disasm, stored, at, old.data)
    return SiteRow(at, old, want, found, is_site, in_file)


def _decode(disasm: Disassembler, address: int, data: bytes, site: range) -> list[Insn]:
    """The instructions of `data`; at the `site` it is cut so that a jump over it is one."""
    if address != site.start or len(data) < len(site):
        return list(disasm.decode(address, data))
    rest = disasm.decode(site.stop, data[len(site) :]) if data[len(site) :] else ()
    here = disasm.site(address, data[: len(site)])
    return [*here, *rest] if len(here) == 1 else list(disasm.decode(address, data))


def _asm(disasm: Disassembler, address: int, data: bytes, site: range) -> str:
    """`data` as one line."""
    return "; ".join(disasm.text(insn) for insn in _decode(disasm, address, data, site))


def _in_file(disasm: Disassembler, stored: FileText, address: int, loaded: bytes) -> Code | None:
    """What `stored` has where `loaded` is now; None for the same.

    Displacements of the file mean nothing before relocation: a branch names the
    symbol it waits for, and one that waits for none how far from itself it goes.
    """
    data = stored.data[address - stored.address :][: len(loaded)]
    if data == loaded:
        return None
    words = []
    for insn in disasm.decode(address, data):
        waiting = [each.symbol for each in stored.pending if insn.address <= each.place < insn.end]
        names = {}
        if insn.target is not None:
            far = f".{insn.target - insn.address:+#x}"
            names[insn.target] = next(filter(None, waiting), far)
        words.append(disasm.text(insn, names))
    return Code(data, "; ".join(words))


def _overlay(text: bytes, offset: int, part: bytes) -> bytes:
    """`text` with `part` at `offset`, in the same length."""
    out = bytearray(text)
    for at, byte in enumerate(part, offset):
        if 0 <= at < len(out):
            out[at] = byte
    return bytes(out)


def _rows(
    disasm: Disassembler,
    start: int,
    compiled: bytes,
    expected: bytes,
    now: bytes,
    site: range,
) -> Iterator[tuple[int, bytes, bytes, bytes]]:
    """The three texts cut into rows: address and the three parts."""
    low = 0
    while low < len(compiled):
        ends = [
            [
                insn.end - start
                for insn in _decode(disasm, start + low, text[low : low + _MOST_ROW], site)
            ]
            for text in (compiled, expected, now)
        ]
        common = set(ends[0]).intersection(*ends[1:])
        if low + _MOST_ROW < len(compiled):
            common.discard(low + _MOST_ROW)  # only the decoded part ends there
        # Where they do not meet, what is there now may end inside an instruction.
        high = min(common or {end for end in ends[0] if end >= ends[2][0]} or {ends[0][-1]})
        yield start + low, compiled[low:high], expected[low:high], now[low:high]
        low = high
