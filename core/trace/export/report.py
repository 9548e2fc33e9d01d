"""A trace as the text that `trace-cmd report` prints from its trace.dat.

The rows are those of trace-cmd 3.1 with its plugins and default options: a function is indented
below its caller, and a call that returns in the next event is one row. Later versions add flags
and return values. Two things differ. To find calls that return at once, trace-cmd reads ahead, and
so prints some events of different CPUs within a microsecond out of order; here they are in order.
And trace-cmd takes names of tasks from events of the scheduler, where a task may have an older
one. Source: the output of trace-cmd, and its manual page trace-cmd-report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...abi import TraceType
from ...events.fprobe import FetchArg
from ..buffer.details import EVENT, HIT, SYSCALL
from ..buffer.timetext import split_time
from ..text.columntexts import comm_of
from ..text.defaultformat import DefaultFormatter
from ..text.tracetext import TraceText
from .plugins import EventPrinter
from .records import event_text

_BLOCK = 1 << 12

_INDENT = 3
"""Cells for each level of function events; graph events have two."""

_NAME = 20
"""Cells of an event's name."""

_NO_TIME = "             |  "
_MARKS = ((1_000_000_000, "$ "), (1_000_000, "# "), (100_000, "! "), (10_000, "+ "))
"""The mark of a duration above a number of ns."""


def report(text: TraceText) -> Iterator[str]:
    """Yield the rows in pieces, after the number of CPUs."""
    events = _Events(text)
    yield f"cpus={text.context.cpus}\n"
    table, known, in_ns = text.table, text.context.cmdlines, text.context.clock_in_ns
    for start in range(0, len(table), _BLOCK):
        rows = table.events[start : start + _BLOCK]
        if in_ns:
            seconds, parts = (each.tolist() for each in split_time(rows["ts"]))
            times = [f" {s:5d}.{us:06d}" for s, us in zip(seconds, parts, strict=True)]
        else:
            times = [f"{stamp:12d}" for stamp in rows["ts"].tolist()]
        columns = zip(rows["pid"].tolist(), rows["cpu"].tolist(), times, strict=True)
        found: list[str] = []
        for row, (pid, cpu, time) in enumerate(columns, start=start):
            if (own := events.own(row)) is None:
                continue
            name, what = own
            head = f"{comm_of(pid, known):>16}-{pid:<5d} [{cpu:03d}]{time}: {name}: "
            body = f"{'':{max(_NAME - len(name), 0)}}{what}"
            found.append(f"{head}{body.removesuffix(chr(10))}\n")
        yield "".join(found)


class _Events:
    """The name and text of each event; call `own` from the oldest event to the newest."""

    def __init__(self, text: TraceText) -> None:
        self._table = text.table
        self._context = text.context
        addresses: list[int] = text.table.addresses.tolist()
        self._addresses = addresses
        names = text.formatter.labels.functions
        self._functions = [name if name and not name.startswith("0x") else None for name in names]
        """The symbol that contains each address, if one does."""
        self._plain = DefaultFormatter(text.table, text.context)
        self._levels: dict[int, list[str]] = {}
        """Names of functions that may have called the next one, by CPU and level."""
        self._printers: dict[int, EventPrinter] = {}
        self._printed = -1
        """The return that was printed with its call."""

    def own(self, row: int) -> tuple[str, str] | None:
        """Return name and text of an event; None for a return printed with its call."""
        event = self._table.events[row]
        kind, ip, parent = int(event["type"]), int(event["ip"]), int(event["parent"])
        match kind:
            case TraceType.FN:
                return "function", self._function(ip, parent, int(event["cpu"]))
            case TraceType.GRAPH_ENT:
                return "funcgraph_entry", self._call(row, ip, parent)
            case TraceType.GRAPH_RET:
                if row == self._printed:
                    return None
                done = self._table.details.returns[parent]
                return "funcgraph_exit", f"{self._time(parent)}{'  ' * int(done['depth'])}}}"
            case TraceType.STACK:
                return "kernel_stack", "<stack trace >\n" + "".join(self._stack(parent))
            case TraceType.PRINT:
                text = self._table.details.texts[parent].decode("utf-8", "backslashreplace")
                return "print", f"{self._functions[ip] or '(nil)'}: {text}"
            case TraceType.CTX:
                return self._switch(parent)
        known: tuple[str, str] | None = None
        if kind == HIT:
            known = self._hit(ip, parent)
        elif kind == SYSCALL:
            known = self._syscall(parent)
        elif kind == EVENT:
            known = self._traced(row, parent)
        if known is None:
            name, _, rest = event_text(self._plain, row).partition(": ")
            known = name, rest
        return known

    def _function(self, ip: int, parent: int, cpu: int) -> str:
        """Return a function indented below its caller, the last one of that name."""
        name, caller = self._functions[ip], self._functions[parent]
        level = 0
        if caller:
            levels = self._levels.setdefault(cpu, [])
            if caller in levels:
                level = levels.index(caller)
            else:
                levels[:1] = [caller]
            if name:
                levels[level + 1 : level + 2] = [name]
        return f"{'':{_INDENT * level}}{name or hex(self._addresses[ip])}"

    def _call(self, row: int, ip: int, depth: int) -> str:
        events, indent = self._table.events, "  " * depth
        name = self._functions[ip] or f"{self._addresses[ip]:x}"
        if row + 1 < len(events):
            call, after = events[row], events[row + 1]
            same = all(call[each] == after[each] for each in ("pid", "ip"))
            if same and after["type"] == TraceType.GRAPH_RET:
                self._printed = row + 1
                return f"{self._time(int(after['parent']))}{indent}{name}();"
        return f"{_NO_TIME}{indent}{name}() {{"

    def _time(self, row: int) -> str:
        """Return the time of row `row` of the returns, with its sign and the line after it."""
        done = self._table.details.returns[row]
        ns = (int(done["rettime"]) - int(done["calltime"])) % (1 << 64)
        mark = next((mark for limit, mark in _MARKS if ns > limit), "  ")
        whole, rest = divmod(ns, 1000)
        digits = f"{whole}"
        if len(digits) < 7:
            digits += f".{rest:03d}"
        return f"{mark}{digits} us {'':{max(7 - len(digits), 0)}}|  "

    def _stack(self, row: int) -> Iterator[str]:
        callers = self._table.details.stacks.row(row)
        names = self._context.symbols.names_of(callers)
        for name, address in zip(names, callers.tolist(), strict=True):
            yield f"=> {name} ({address:x})\n"

    def _switch(self, row: int) -> tuple[str, str]:
        each = self._table.details.switches[row]
        before, after = (
            ":".join(f"{each[f'{task}_{part}']}" for part in ("pid", "prio", "state"))
            for task in ("prev", "next")
        )
        name, sign = ("wakeup", "==+") if each["wakeup"] else ("context_switch", "==>")
        return name, f"{before}  {sign} {after} [{each['next_cpu']:03d}]"

    def _syscall(self, row: int) -> tuple[str, str] | None:
        call = self._table.details.calls[row]
        event = self._context.syscalls.get(int(call["id"]))
        if event is None or event.syscall.nr != call["nr"] or call["count"] < event.values:
            return None
        values = call["values"][: event.values].tolist()
        if event.exit:
            return event.name, f"0x{values[0]:x}"
        named = zip(event.syscall.arguments, values, strict=True)
        return event.name, ", ".join(f"{name}: 0x{value:08x}" for (_, name), value in named)

    def _traced(self, row: int, record: int) -> tuple[str, str] | None:
        """Return name and text of event `row`, whose bytes are those of row `record`."""
        records = self._table.details.records
        number = int(records.ids[record])
        event = self._context.events.get(number)
        if number == TraceType.RAW_DATA and (event is None or event.name == "raw_data"):
            # The kernel has a word before the bytes.
            return "raw_data", event_text(self._plain, row).replace(" buf:", "", 1)
        if event is None or event.group == "ftrace":
            return None
        printer = self._printers.get(number)
        if printer is None:
            printer = self._printers[number] = EventPrinter(event, self._context)
        return event.name, printer.text(records.row(record))

    def _hit(self, ip: int, row: int) -> tuple[str, str] | None:
        hit = self._table.details.hits[row]
        fprobe = self._context.fprobes.get(int(hit["id"]))
        if fprobe is None:
            return None
        registers = hit["regs"].tolist()
        values = (
            f" {each.name}={_value(each, registers, self._context.symbols.format)}"
            for each in fprobe.arguments
        )
        return fprobe.event, f"({self._addresses[ip]:x}){''.join(values)}"


def _value(
    argument: FetchArg, registers: Sequence[int], format_address: Callable[[int], str]
) -> str:
    """Return an argument of an fprobe; trace-cmd prints addresses without the function's size."""
    text = argument.text(registers, format_address)
    if argument.kind == "symbol":
        return text.partition("/")[0]
    # trace-cmd's casts to s8 and s16 drop the sign.
    if argument.kind == "s" and argument.bits in (8, 16):
        return f"{int(text) % (1 << argument.bits)}"
    return text
