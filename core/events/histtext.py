"""The file `hist`: the counts of an event's histograms.

Source: hist_trigger_print_key(), hist_trigger_print_val(), print_actions() and
track_data_snapshot_print() in kernel/trace/trace_events_hist.c, tracing_map_sort_entries() in
kernel/trace/tracing_map.c, 6.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..abi import HistAction, HistHandler
from .hist import HITCOUNT, Action, Hist, HistField, Is

_BAR = 20
_U64 = (1 << 64) - 1

Key = int | str | tuple[int, ...]
"""A number, a text, or the addresses of a stack trace."""


@dataclass(frozen=True, slots=True)
class Row:
    """An entry of a histogram."""

    keys: tuple[Key, ...]
    values: tuple[int, ...]
    """The values, the number of hits first."""
    vars: tuple[int | str, ...] = ()
    """All variables; 0 for one that is not set."""
    comm: str = ""
    """The task that made it, if the histogram needs its name."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cause of the last snapshot that the action `snapshot` took."""

    value: int
    keys: tuple[Key, ...]
    comm: str


@dataclass(frozen=True, slots=True)
class Content:
    """The counts of a histogram."""

    rows: Sequence[Row]
    hits: int
    drops: int
    snapshot: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class Names:
    """Names for the modifiers."""

    symbol: Callable[[int, bool], str]
    """Returns the symbol at an address, with its offset if the second argument is true."""
    syscalls: Mapping[int, str]
    """Names of system calls by number."""


def hist_text(hist: Hist, line: str, content: Content, names: Names) -> Iterator[str]:
    """Yield the text of one histogram; `line` is its line of the file `trigger`."""
    yield f"# event histogram\n#\n# trigger info: {line}\n#\n\n"
    columns = [*zip(*(row.values for row in content.rows), strict=True)]
    sums = [(max(column), sum(column) & _U64) for column in columns]
    for row in _sorted(hist, content.rows):
        yield f"{_keys_text(hist, row.keys, row.comm, names)} {HITCOUNT}: {row.values[0]:10d}"
        for number, each in enumerate(hist.vals, 1):
            if not each.flags & Is.EXPR:
                yield f"  {each.name}{_value_text(each, row.values[number], *sums[number])}"
        for action in hist.actions:
            if action.handler is not HistHandler.ONMATCH:
                yield from _tracked(hist, action, row)
        yield "\n"
    if content.snapshot is not None:
        yield from _snapshot(hist, content.snapshot, names)
    yield f"\nTotals:\n    Hits: {content.hits}\n    Entries: {len(content.rows)}\n"
    yield f"    Dropped: {content.drops}\n"


def _sorted(hist: Hist, rows: Sequence[Row]) -> list[Row]:
    """Return the rows sorted; equal rows by their keys."""
    ordered = sorted(rows, key=lambda row: row.keys)
    for sort in reversed(hist.sort):
        if sort.field in hist.keys:
            at, key = hist.keys.index(sort.field), sort.field
            if not key.flags & Is.STACKTRACE:
                ordered.sort(
                    key=lambda row, at=at, key=key: _order(key, row.keys[at]),  # type: ignore[misc]
                    reverse=sort.descending,
                )
        else:
            at = 0 if sort.field is None else hist.vals.index(sort.field) + 1
            ordered.sort(key=lambda row, at=at: row.values[at], reverse=sort.descending)  # type: ignore[misc]
    return ordered


def _order(key: HistField, value: Key) -> Key:
    """Return the sort value of a key: a number has the width and sign of its field."""
    if not isinstance(value, int):
        return value
    size = key.size if key.field is None else key.field.size
    value &= (1 << 8 * size) - 1
    return value - (1 << 8 * size) if key.signed and value >> 8 * size - 1 else value


def _keys_text(hist: Hist, keys: Sequence[Key], comm: str, names: Names) -> str:
    pairs = zip(hist.keys, keys, strict=True)
    text = ", ".join(_key_text(key, value, comm, names) for key, value in pairs)
    stack = any(key.flags & Is.STACKTRACE for key in hist.keys)
    return f"{{ {text}{'' if stack else ' '}}}"


def _key_text(key: HistField, value: Key, comm: str, names: Names) -> str:
    if isinstance(value, tuple):
        calls = "".join(f"{'':9}{names.symbol(call, True)}\n" for call in value if call)
        return f"stacktrace:\n{calls}"
    if isinstance(value, str):
        return f"{key.name}: {value:<50}"
    if key.flags & Is.HEX:
        shown = f"{value:x}"
    elif key.flags & Is.SYM:
        shown = f"[{value:x}] {names.symbol(value, False):<45}"
    elif key.flags & Is.SYM_OFFSET:
        shown = f"[{value:x}] {names.symbol(value, True):<55}"
    elif key.flags & Is.EXECNAME:
        shown = f"{comm:<16}[{value:10d}]"
    elif key.flags & Is.SYSCALL:
        shown = f"{names.syscalls.get(value, 'unknown_syscall'):<30}[{value:3d}]"
    elif key.flags & Is.LOG2:
        shown = f"~ 2^{value:<2d}"
    elif key.flags & Is.BUCKET:
        shown = f"~ {value}-{value + key.buckets - 1}"
    else:
        shown = f"{value:10d}"
    return f"{key.name}: {shown}"


def _value_text(val: HistField, value: int, most: int, total: int) -> str:
    """Return a value with its colon; `most` and `total` are the maximum and sum over all rows."""
    if val.flags & Is.PERCENT:
        part = _ten_thousandths(value, total)
        shown = "[ERROR]" if part is None else f" {part // 100:3d}.{part % 100:02d}"
        return f" (%):{shown}"
    if val.flags & Is.GRAPH:
        part = _ten_thousandths(value, most)
        bar = "[ERROR]" if part is None else "#" * min(part * _BAR // 10000, _BAR)
        return f": {bar:>{_BAR}}" if part is None else f": {bar:<{_BAR}}"
    return f": {value:10{'x' if val.flags & Is.HEX else 'd'}}"


def _ten_thousandths(value: int, total: int) -> int | None:
    """Return the share in hundredths of a percent; None if the total is 0."""
    if not total:
        return None if value else 0
    if value < _U64 // 10000:
        return value * 10000 // total
    return value // (total // 10000) if total >= 10000 else None


def _tracked(hist: Hist, action: Action, row: Row) -> Iterator[str]:
    """Yield the values that `onmax` or `onchange` keeps of an entry (`track_data_print`)."""
    if action.action is HistAction.SNAPSHOT:
        return
    word = "max" if action.handler is HistHandler.ONMAX else "changed"
    yield f"\n\t{word}: {row.vars[action.var]:10d}"
    for each in hist.save_vars:
        value = row.vars[each.index]
        shown = f"{value:<32}" if isinstance(value, str) else f"{value:10d}"
        yield f"  {each.var}: {shown}"


def _snapshot(hist: Hist, snapshot: Snapshot, names: Names) -> Iterator[str]:
    action = next(each for each in hist.actions if each.action is HistAction.SNAPSHOT)
    yield "\nSnapshot taken (see tracing/snapshot).  Details:\n"
    handler = action.handler.name.lower()
    yield f"\ttriggering value {{ {handler}({action.tracked}) }}: {snapshot.value:10d}"
    keys = _keys_text(hist, snapshot.keys, snapshot.comm, names)
    yield f"\ttriggered by event with key: {keys}\n"
