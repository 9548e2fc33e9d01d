"""One call site: as it was compiled, as ftrace expects it, and as it is.

The same few instructions have three texts: the compiler's, the one that ftrace left there according
to the record, and the one in guest memory. For a module, the compiler's text is the text after
relocation by insmod. The site itself then has a fourth text, the file's, in which a call has a
relocation instead of a target.

If instructions differ in length, the three texts can be cut differently. A row ends at the next
address at which an instruction ends in all three texts, if it is near enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

import numpy as np

from ..arch import Sites
from ..errors import MemoryFault, UsageError
from ..ftrace.entry import CALLER
from ..ftrace.ftrace import Ftrace
from ..ftrace.ftraced import Ftraced
from ..ftrace.records import Records
from ..ftrace.sites import calls_in
from ..ftrace.state import RecordState
from ..machine.memory import Memory
from .disasm import Disassembler, Insn
from .filetext import FileText

UNFOUND, NOTED, EARLY = "not found yet", "noted by ftraced", "as compiled"


class Unrecorded(Enum):
    """Why a site has no record."""

    EARLY = auto()
    """ftrace_init has not run yet."""
    OFF = auto()
    """ftrace is off."""
    SUSPENDED = auto()
    """Functions are traced, so ftraced finds nothing."""
    NOT_NOTED = auto()
    """mcount has not noted the site: it was not called, or no slot was free."""
    STOPPED = auto()
    """The site is noted, but the user has disabled ftraced."""
    NOTED = auto()
    """The site is noted; ftraced converts it when it next wakes."""


class Files(Protocol):
    """The loaded files, as far as the view of a call site needs them."""

    def text(self, address: int, size: int) -> bytes | None:
        """Return the relocated text at `address`; None if no file has it."""
        ...

    def stored(self, address: int, size: int) -> FileText | None:
        """Return the unrelocated text for `address` in a module's file; None without a file."""
        ...

    def source_line(self, address: int) -> tuple[str, int] | None:
        """Return file and line of the code at `address`, if debug information has them."""
        ...


_LEAD = 256
"""Maximum bytes shown between a function's start and its site."""

_MOST_ROW = 32
"""Maximum bytes of a row, in which an instruction should end in all three texts."""


@dataclass(frozen=True, slots=True)
class Code:
    """Bytes and their assembly; `; ` separates instructions."""

    data: bytes
    asm: str


@dataclass(frozen=True, slots=True)
class SiteRow:
    """The same few bytes of text in each of their forms."""

    address: int
    compiled: Code
    """The bytes before ftrace changed them; for a module, as insmod loaded them."""
    expected: Code
    now: Code
    is_site: bool
    """Whether the row is part of the call site, not of the text around it."""
    in_file: Code | None = None
    """The site in the module's file, if that differs; a call names its relocation's symbol."""
    switches: bool = False
    """Whether enabling or disabling the site changes the row."""

    @property
    def changed(self) -> bool:
        """Whether the text differs from what was compiled or loaded."""
        return self.now.data != self.compiled.data

    @property
    def wrong(self) -> bool:
        """Whether the text differs from what ftrace expects; ftrace checks only the site."""
        return self.is_site and self.now.data != self.expected.data


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call site and the text around it."""

    name: str
    module: str | None
    ip: int
    symbol: str
    """`ip` as the kernel prints it: `schedule+0x0/0x80`."""
    state: str
    """`NOP`, `ENABLED`, `FAILED`, or for a site without a record `UNFOUND`, `NOTED`, `EARLY`."""
    users: int
    """Number of ftrace_ops that want the site."""
    ops: tuple[str, ...]
    """Names of these ops."""
    via: tuple[str, int] | None
    """Name and address of the stub that its call uses; None if `caller` is in reach."""
    source: tuple[str, int] | None
    """File and line, if debug information has them."""
    readable: bool
    """Whether its memory is mapped; else `now` is empty in all rows."""
    reason: str
    """Why ftrace would refuse to change it, if the port can tell; else empty."""
    rows: tuple[SiteRow, ...]
    writable: bool = True
    """Whether ftrace can write its text; false on a protected page."""
    under_way: bool = False
    """Whether a watched patch has not finished, so that `now` may still differ from `expected`."""
    caller: str = CALLER
    """The function that it calls, or would call if it were enabled."""
    unrecorded: Unrecorded | None = None
    """Why it has no record; None if it has one."""
    changed_words: int = 0
    """Number of leading words that ever change; 0 if all do."""
    relocations: tuple[str, ...] = ()
    """Type and symbol of each relocation of the site in the module's file."""

    @property
    def relocated(self) -> bool:
        """Whether insmod changed the site, so that `compiled` is not what the file has."""
        return any(row.in_file is not None for row in self.rows)


def find_sites(records: Records, text: str, prefix: str = "") -> list[int]:
    """Return the ips of the records that `text` names: `FUNC`, `FUNC [MODULE]` or `0xIP`.

    A name may omit `prefix`, the ABI's prefix of names of code.
    """
    if text[:2].lower() == "0x":
        try:
            ip = int(text, 16)
            return [] if records.find(ip) is None else [ip]
        except (ValueError, OverflowError):
            return []
    name, _, module = text.partition(" ")
    wanted = {name, prefix + name} if name else set()
    rows = [row for row, known in enumerate(records.names) if known in wanted]
    if module:
        rows = [row for row in rows if f"[{records.module_of(row)}]" == module.strip()]
    ips: list[int] = records.table["ip"][rows].tolist()
    return ips


class SiteReader:
    """Reads the call sites of one machine."""

    def __init__(self, ftrace: Ftrace, memory: Memory, disasm: Disassembler, files: Files) -> None:
        self._ftrace = ftrace
        self._memory = memory
        self._disasm = disasm
        self._files = files

    def at(self, ip: int, *, before: int = 2, after: int = 3) -> CallSite:
        """Return the call site at `ip` with some instructions `before` and `after` it.

        Raises `UsageError` if no call site is there.
        """
        row = self._ftrace.records.find(ip)
        if row is not None:
            return self._recorded(self._ftrace.state(row), before, after)
        ftraced, early = self._ftrace.ftraced, self._ftrace.early
        if early is not None and np.uint64(ip) in early:
            return self._unfound(ip, self._as_compiled(ip), EARLY, Unrecorded.EARLY, before, after)
        if ftraced is None:
            raise UsageError(f"no call site at {ip:#x}")
        noted = bool((ftraced.noted() == np.uint64(ip)).any())
        call = self._ftrace.port.modify_call(
            Sites(np.array([ip], np.uint64)), self._ftrace.mcount, self._ftrace.mcount
        )
        text, state = call.expected[0].tobytes(), NOTED if noted else UNFOUND
        return self._unfound(ip, text, state, _unrecorded(ftraced, noted), before, after)

    def unfound(self, name: str) -> list[int]:
        """Return the ips of the sites in the function `name` that have no record yet.

        They are calls of mcount that ftraced has not found, or sites of a kernel that has not
        come to ftrace_init. `name` is as for `find_sites`, without a module.
        """
        ftrace, prefix = self._ftrace, self._ftrace.port.facts.abi.text_prefix
        if ftrace.early is not None and name:
            names = ftrace.kallsyms.names_of(ftrace.early)
            return [
                int(ip)
                for ip, known in zip(ftrace.early.tolist(), names, strict=True)
                if known in (name, prefix + name)
            ]
        if ftrace.ftraced is None or not name:
            return []
        found: list[int] = []
        for symbol in ftrace.kallsyms.functions():
            if symbol.name in (name, prefix + name):
                text = self._files.text(symbol.address, symbol.size)
                ips = calls_in(ftrace.port, symbol.address, text or b"", ftrace.mcount)
                found += ips[ftrace.records.rows_of(ips) < 0].tolist()
        return found

    def _recorded(self, state: RecordState, before: int, after: int) -> CallSite:
        """Return the call site of a record."""
        wanted = state.address, state.expected
        around = self._around(
            state.ip, state.compiled, wanted, state.switched, before, after, state.lead
        )
        stub = state.stub
        under_way = self._ftrace.patcher.patch is not None
        return CallSite(
            name=state.name,
            module=state.module,
            ip=state.ip,
            symbol=self._ftrace.kallsyms.format(state.ip),
            state=state.form,
            users=len(state.users),
            ops=tuple(each.name for each in state.users),
            via=None if stub is None else (self._disasm.name(stub.address) or "stub", stub.address),
            source=self._source(state.ip),
            readable=around.readable,
            writable=self._writable(state.address, len(state.expected)),
            caller=state.caller,
            changed_words=state.changed_words,
            reason="" if under_way else state.reason or _untouched(around.rows, state),
            under_way=under_way,
            rows=around.rows,
            relocations=around.relocations,
        )

    def _as_compiled(self, ip: int) -> bytes:
        """Return the text of a site that ftrace has not changed yet."""
        port = self._ftrace.port
        ips = np.array([ip], np.uint64)
        compiled, _ = self._memory.gather(ips, port.facts.sites.size)
        length = int(port.lengths(Sites(ips, compiled=compiled))[0])
        text = self._files.text(ip, length)
        return compiled[0, :length].tobytes() if text is None else text

    def _unfound(
        self, ip: int, text: bytes, state: str, why: Unrecorded, before: int, after: int
    ) -> CallSite:
        """Return the site at `ip`, which has no record yet and was compiled as `text`."""
        ftrace = self._ftrace
        around = self._around(ip, text, (ip, text), range(ip, ip + len(text)), before, after)
        symbol = ftrace.kallsyms.lookup(ip)
        return CallSite(
            name=f"0x{ip:x}" if symbol is None else symbol.name,
            module=None if symbol is None else symbol.module,
            ip=ip,
            symbol=ftrace.kallsyms.format(ip),
            state=state,
            users=0,
            ops=(),
            via=None,
            source=self._source(ip),
            readable=around.readable,
            unrecorded=why,
            reason="",
            rows=around.rows,
            relocations=around.relocations,
        )

    def _writable(self, address: int, size: int) -> bool:
        """Return whether the text at `address` can be written."""
        return bool(self._memory.writable(np.array([address], np.uint64), size)[0])

    def _source(self, ip: int) -> tuple[str, int] | None:
        """Return file and line of the function whose site is at `ip`."""
        return self._files.source_line(ip + self._ftrace.port.facts.sites.source_offset)

    def _around(
        self,
        ip: int,
        left: bytes,
        wanted: tuple[int, bytes],
        switched: range,
        before: int,
        after: int,
        lead: bytes = b"",
    ) -> _Around:
        """Read the site at `ip` and the text around it.

        `left` is the compiler's text, `wanted` the address and bytes of the expected text;
        `switched` are the addresses that change when the site is enabled. `lead` is the expected
        text just before `ip`.
        """
        disasm, (address, text) = self._disasm, wanted
        first = ip - len(lead)
        start, end = self._window(ip, first, after)
        readable = True
        try:
            now = self._memory.read(start, end - start)
        except MemoryFault:
            now, readable = b"", False
        compiled = self._files.text(start, end - start) or now or bytes(end - start)
        compiled = _overlay(compiled, ip - start, left)
        expected = _overlay(compiled, first - start, lead)
        expected = _overlay(expected, address - start, text)
        stop = ip + len(left)
        rows: list[tuple[int, bytes, bytes, bytes]] = []
        for each in _rows(disasm, start, compiled, expected, now or compiled, range(first, stop)):
            if each[0] >= stop and sum(at >= stop for at, *_ in rows) == after:
                break
            rows.append(each if readable else (*each[:3], b""))
        skipped = sum(at + len(old) <= first for at, old, *_ in rows)
        shown = rows[max(skipped - before, 0) :]
        stored = self._files.stored(start, end - start)
        pending = () if stored is None else stored.pending
        return _Around(
            rows=tuple(
                _site_row(disasm, each, range(first, stop), switched, stored) for each in shown
            ),
            readable=readable,
            relocations=tuple(
                f"{each.kind} {each.symbol}".rstrip()
                for each in pending
                if first <= each.place < stop
            ),
        )

    def _window(self, ip: int, first: int, after: int) -> tuple[int, int]:
        """Return the range to decode: from the function's start, if near, to past the site.

        `first` is where the site begins, `ip` its rec.ip.
        """
        facts = self._ftrace.port.facts
        end = ip + facts.sites.size
        symbol = self._ftrace.kallsyms.lookup(ip)
        if symbol is None:
            return first, end
        start = symbol.address if first - symbol.address <= _LEAD else first
        last = min(symbol.address + symbol.size, end + after * facts.max_insn_size)
        return start, max(end, last)


def _untouched(rows: tuple[SiteRow, ...], state: RecordState) -> str:
    """Return a sentence about wrong text before rec.ip, which ftrace ignores; "" if it is right."""
    wrong = any(row.wrong and row.address < state.ip for row in rows)
    return "ftrace wrote it once and does not compare it again" if state.lead and wrong else ""


def _unrecorded(ftraced: Ftraced, noted: bool) -> Unrecorded:
    """Return why a site that ftraced could find has no record."""
    if ftraced.off:
        return Unrecorded.OFF
    if noted:
        return Unrecorded.STOPPED if ftraced.stopped else Unrecorded.NOTED
    return Unrecorded.SUSPENDED if ftraced.suspended else Unrecorded.NOT_NOTED


@dataclass(frozen=True, slots=True)
class _Around:
    """A site and the text around it, as read."""

    rows: tuple[SiteRow, ...]
    readable: bool
    relocations: tuple[str, ...]


def _site_row(
    disasm: Disassembler,
    row: tuple[int, bytes, bytes, bytes],
    site: range,
    switched: range,
    stored: FileText | None,
) -> SiteRow:
    """Disassemble a row of `_rows`; a row of the `site` also gets what the file has."""
    at, *texts = row
    old, want, found = (Code(data, _asm(disasm, at, data, site)) for data in texts)
    is_site = at < site.stop and at + len(old.data) > site.start
    in_file = None if stored is None or not is_site else _in_file(disasm, stored, at, old.data)
    switches = at < switched.stop and at + len(old.data) > switched.start
    return SiteRow(at, old, want, found, is_site, in_file, switches)


def _decode(disasm: Disassembler, address: int, data: bytes, site: range) -> list[Insn]:
    """Decode `data`; a jump over the rest of the `site` counts as one instruction."""
    if address != site.start or len(data) < len(site):
        return list(disasm.decode(address, data))
    rest = disasm.decode(site.stop, data[len(site) :]) if data[len(site) :] else ()
    here = disasm.site(address, data[: len(site)])
    return [*here, *rest] if len(here) == 1 else list(disasm.decode(address, data))


def _asm(disasm: Disassembler, address: int, data: bytes, site: range) -> str:
    """Disassemble `data` to one line."""
    return "; ".join(disasm.text(insn) for insn in _decode(disasm, address, data, site))


def _in_file(disasm: Disassembler, stored: FileText, address: int, loaded: bytes) -> Code | None:
    """Return the bytes of `stored` instead of `loaded`; None if both are the same.

    Before relocation, displacements in the file are meaningless: a branch is shown with the symbol
    of its relocation, or with its distance if it has no relocation.
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
    """Return `text` with `part` written over it at `offset`; the length stays."""
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
    """Cut the three texts into rows: an address and three pieces of text."""
    low = 0
    while low < len(compiled):
        # Where nobody changed the text, a row is one instruction: decode no more than that.
        window = compiled[low : low + _MOST_ROW]
        same = window == expected[low : low + _MOST_ROW] == now[low : low + _MOST_ROW]
        size = disasm.size(start + low, window) if same and start + low != site.start else 0
        if 0 < size < len(window):
            yield start + low, *(window[:size],) * 3
            low += size
            continue
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
        # If the texts do not meet, the row may end inside an instruction of `now`.
        high = min(common or {end for end in ends[0] if end >= ends[2][0]} or {ends[0][-1]})
        yield start + low, compiled[low:high], expected[low:high], now[low:high]
        low = high
