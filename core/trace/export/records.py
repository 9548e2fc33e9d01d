"""The events of a trace as a table: CSV and JSON lines, one record for each event."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

from ...abi import TraceType
from ..buffer.details import EVENT, HIT, SYSCALL
from ..text.columns import joined
from ..text.columntexts import comm_of
from ..text.defaultformat import DefaultFormatter
from ..text.tracetext import TraceText, escaped

COLUMNS = (
    "time_ns",
    "cpu",
    "pid",
    "comm",
    "event",
    "function",
    "caller",
    "depth",
    "duration_ns",
    "text",
)
"""The fields of a record. Fields that an event does not have are empty (CSV) or absent (JSON)."""

EVENTS = {
    TraceType.FN: "function",
    TraceType.GRAPH_ENT: "funcgraph_entry",
    TraceType.GRAPH_RET: "funcgraph_exit",
    TraceType.STACK: "kernel_stack",
    TraceType.PRINT: "print",
    TraceType.CTX: "context_switch",
    TraceType.WAKE: "wakeup",
    TraceType.RAW_DATA: "raw_data",
    HIT: "fprobe",
    SYSCALL: "syscall",
}
"""Names of the events, as in the kernel's `events/ftrace/` where it has them."""

_BLOCK = 1 << 12


def records(text: TraceText) -> Iterator[dict[str, int | str]]:
    """Yield the record of each event, oldest first."""
    table, known = text.table, text.context.cmdlines
    functions = text.formatter.labels.functions
    events = DefaultFormatter(table, text.context)
    returns, switches = table.details.returns, table.details.switches
    fields = ("ts", "ip", "parent", "pid", "cpu", "type")
    details, known_events = table.details.records, text.context.events
    for start in range(0, len(table), _BLOCK):
        block = table.events[start : start + _BLOCK]
        columns = (block[name].tolist() for name in fields)
        for row, (ts, ip, parent, pid, cpu, kind) in enumerate(
            zip(*columns, strict=True), start=start
        ):
            if kind == TraceType.CTX and switches[parent]["wakeup"]:
                kind = TraceType.WAKE
            record: dict[str, int | str] = {
                "time_ns": ts,
                "cpu": cpu,
                "pid": pid,
                "comm": comm_of(pid, known),
                "event": EVENTS.get(kind, "unknown"),
            }
            if kind == EVENT:
                number = int(details.ids[parent])
                event = known_events.get(number)
                record["event"] = EVENTS.get(number, "unknown") if event is None else event.name
            if kind in (TraceType.FN, TraceType.GRAPH_ENT, TraceType.GRAPH_RET):
                record["function"] = functions[ip]
            if kind == TraceType.FN:
                record["caller"] = functions[parent]
            elif kind == TraceType.GRAPH_ENT:
                record["depth"] = parent
            elif kind == TraceType.GRAPH_RET:
                done = returns[parent]
                record["depth"] = int(done["depth"])
                record["duration_ns"] = int(done["rettime"]) - int(done["calltime"])
            else:
                record["text"] = event_text(events, row)
            yield record


def event_text(events: DefaultFormatter, event: int) -> str:
    """Return the own text of an event, without task, CPU and time, on one line."""
    return escaped(joined(events.own_fields(event)).strip())


def json_lines(text: TraceText) -> Iterator[str]:
    """Yield one JSON object a line."""
    for record in records(text):
        yield json.dumps(record, separators=(",", ":")) + "\n"


def comma_separated(text: TraceText) -> Iterator[str]:
    """Yield CSV (RFC 4180, with plain newlines): a heading, then one line for each event."""
    written = io.StringIO()
    writer = csv.DictWriter(written, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for record in records(text):
        writer.writerow(record)
        if written.tell() > _BLOCK:
            yield written.getvalue()
            written.seek(0)
            written.truncate()
    yield written.getvalue()
