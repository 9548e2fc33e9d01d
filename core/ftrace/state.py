"""Everything ftrace knows of one call site, at one moment.

The views of a call site, of its path and of its bit fields all read this state, and do not query
ftrace again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..arch import Edit, ModuleStub, Port, Sites
from ..errors import MemoryFault
from ..machine.memory import Memory
from .ops import FtraceOps
from .records import Flag, Records

NOP, ENABLED, FAILED = "nop", "enabled", "failed"
"""The forms of a record; a failed one held text that ftrace refused to change."""


@dataclass(frozen=True, slots=True)
class RecordState:
    """A record (`struct dyn_ftrace`) and the text at its call site."""

    ip: int
    name: str
    """The function that contains the site."""
    module: str | None
    """Name of its module; None for the kernel."""
    form: str
    """`NOP`, `ENABLED` or `FAILED`."""
    flags: Flag
    users: tuple[FtraceOps, ...]
    """Registered ops that want the site."""
    caller: str
    """Name of the function that the call reaches, or would reach if it were enabled."""
    target: int | None
    """Address of that function; None for a kernel that cannot be traced."""
    stub: ModuleStub | None
    """The module stub that the call uses, or would use; None if `target` is in reach."""
    compiled: bytes
    """The site's text before ftrace first changed it."""
    lead: bytes
    """Text before `ip` that ftrace wrote with its first change, and never checks again."""
    address: int
    """Where `expected` begins; not always the same as `ip`."""
    expected: bytes
    """The text that ftrace left at `address`."""
    found: bytes | None
    """The text at `address` now; None if its memory is not mapped."""
    text: bytes | None
    """The whole site as it is now, from `ip`; None if its memory is not mapped."""
    if_enabled: bytes | None
    """The whole site with the call in it; None if it is enabled, or cannot be enabled."""
    changed_words: int
    """Leading words that change when the site is enabled; 0 if more than half of it changes."""
    switched: range
    """Addresses from the first to the last byte that differ between the call and its nop."""
    reason: str
    """Why ftrace would refuse to change the text, if the port can tell; else empty."""

    @property
    def enabled(self) -> bool:
        """Whether the record says that the site holds a call."""
        return bool(self.flags & Flag.ENABLED)


def record_state(
    port: Port,
    memory: Memory,
    records: Records,
    ops: Sequence[FtraceOps],
    target: int | None,
    row: int,
) -> RecordState:
    """Return the state of record `row`; `ops` are registered, `target` is its call's target."""
    record, sites = records.table[row], records.sites(slice(row, row + 1))
    ip, flags = int(record["ip"]), Flag(int(record["flags"]))
    length = int(port.lengths(sites)[0])
    # In a kernel that cannot be traced nothing was ever enabled, and a nop is the same
    # whatever call it replaces.
    nop = port.make_nop(sites, ip if target is None else target)
    if record["raw"]:
        address, expected = ip, records.compiled[row].tobytes()
    else:
        text = nop.expected if flags & Flag.ENABLED else nop.replacement
        address, expected = int(nop.address[0]), nop.row(text, 0)
    found, whole = _read(memory, address, len(expected)), _read(memory, ip, length)
    call = None if target is None else port.make_call(sites, target)
    users = () if flags & Flag.DISABLED else ops
    disabled = not flags & Flag.ENABLED
    return RecordState(
        ip=ip,
        name=records.names[row],
        module=records.module_of(row),
        form=FAILED if record["failed"] else NOP if disabled else ENABLED,
        flags=flags,
        users=tuple(each for each in users if each.matches(records.table["ip"][row : row + 1])[0]),
        caller=records.caller_of(row),
        target=target,
        stub=None if call is None else _stub(records, call),
        compiled=records.compiled[row].tobytes()[:length],
        lead=b"" if record["raw"] else _lead(port, sites),
        address=address,
        expected=expected,
        found=found,
        text=whole,
        if_enabled=None if call is None or whole is None else _enabled(call, ip, whole, disabled),
        changed_words=0 if target is None else _changed_words(nop, length, port.facts.insn_align),
        switched=_switched(nop),
        reason="" if found is None or found == expected else port.explain(ip, expected, found),
    )


def _lead(port: Port, sites: Sites) -> bytes:
    """Return the text before rec.ip of the first of `sites` that its first change writes."""
    first = port.init_nop(sites, int(sites.ip[0]))
    return first.row(first.replacement, 0)[: first.lead]


def _read(memory: Memory, address: int, size: int) -> bytes | None:
    """Return `size` bytes of guest memory, or None if they are not mapped."""
    try:
        return memory.read(address, size)
    except MemoryFault:
        return None


def _stub(records: Records, call: Edit) -> ModuleStub | None:
    """Return the module stub that the call goes through."""
    return next((stub for via in call.via for stub in records.stubs_at(via)), None)


def _enabled(call: Edit, ip: int, text: bytes, disabled: bool) -> bytes | None:
    """Return the site's `text` with `call` written into it."""
    if not disabled or not call.reachable[0]:
        return None
    start, new = int(call.address[0]) - ip, call.row(call.replacement, 0)
    return text[:start] + new + text[start + len(new) :]


def _switched(nop: Edit) -> range:
    """Return the addresses from the first to the last byte that `nop` changes."""
    old, new = nop.row(nop.expected, 0), nop.row(nop.replacement, 0)
    differ = np.flatnonzero(np.frombuffer(old, np.uint8) != np.frombuffer(new, np.uint8))
    start = int(nop.address[0])
    return range(start + int(differ[0]), start + int(differ[-1]) + 1) if len(differ) else range(0)


def _changed_words(nop: Edit, size: int, step: int) -> int:
    """Return how many leading words change in a site whose other words outnumber them."""
    old, new = nop.row(nop.expected, 0), nop.row(nop.replacement, 0)
    differ = np.flatnonzero(np.frombuffer(old, np.uint8) != np.frombuffer(new, np.uint8))
    words = int(differ[-1]) // step + 1 if len(differ) else 0
    if step == 1 or not nop.reachable[0] or size <= 2 * words * step:
        return 0
    return words
