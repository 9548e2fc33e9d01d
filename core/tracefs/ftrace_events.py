"""events/ftrace/ and events/header_*: the layout of what the tracers write, for readers of pages.

These events have no switches of their own: they follow their tracers. Source:
kernel/trace/trace_entries.h, ring_buffer_print_page_header() and ring_buffer_print_entry_header()
in kernel/trace/ring_buffer.c, 6.1; `retval` of funcgraph_exit is of 6.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..abi import RB_PAGE_SIZE, TraceType
from .event import COMMON_SIZE, Field, format_text
from .tree import Directory, File, FixedFile, Node

HEADER_EVENT = """# compressed entry header
\ttype_len    :    5 bits
\ttime_delta  :   27 bits
\tarray       :   32 bits

\tpadding     : type == 29
\ttime_extend : type == 30
\ttime_stamp : type == 31
\tdata max type_len  == 28
"""

STACK_ENTRIES = 8
"""Addresses that the format of a stack trace names; an event may have more."""

_SWITCHED = "REC->prev_pid, REC->prev_prio, REC->prev_state, REC->next_pid, REC->next_prio, "


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of one event of the tracers."""

    name: str
    number: int
    fields: tuple[Field, ...]
    print_fmt: str


def header_page(long: int) -> str:
    """Return the content of header_page: the pages that readers get (rawpages.py)."""
    rows = (
        ("u64 timestamp", 0, 8, 0),
        ("local_t commit", 8, long, 1),
        ("int overwrite", 8, 1, 1),
        ("char data", 8 + long, RB_PAGE_SIZE - 8 - long, 1),
    )
    return "".join(
        f"\tfield: {name};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n"
        for name, offset, size, signed in rows
    )


def layouts(long: int) -> Sequence[Layout]:
    """Return the layouts, by number; a long has `long` bytes."""

    def fields(*wanted: tuple[str, str, int]) -> tuple[Field, ...]:
        """Return fields one after the other."""
        return tuple(_placed(wanted))

    ip, func = ("unsigned long", "ip", long), ("unsigned long", "func", long)
    byte, number = "unsigned char", "unsigned int"
    switch = fields(
        *((number, name, 4) for name in ("prev_pid", "next_pid", "next_cpu")),
        *((byte, name, 1) for name in ("prev_prio", "prev_state", "next_prio", "next_state")),
    )
    # The guest pads the number of addresses to a long.
    stack = (
        Field("int", "size", COMMON_SIZE, 4, True),
        Field(
            "unsigned long",
            f"caller[{STACK_ENTRIES}]",
            COMMON_SIZE + long,
            STACK_ENTRIES * long,
        ),
    )
    callers = "".join(f", (void *)REC->caller[{each}]" for each in range(STACK_ENTRIES))
    exit_fields = (
        *(func, ("unsigned long", "retval", long), ("int", "depth", 4)),
        *((number, "overrun", 4), ("unsigned long long", "calltime", 8)),
        ("unsigned long long", "rettime", 8),
    )
    return (
        Layout(
            "function",
            TraceType.FN,
            fields(ip, ("unsigned long", "parent_ip", long)),
            '" %ps <-- %ps", (void *)REC->ip, (void *)REC->parent_ip',
        ),
        Layout(
            "context_switch",
            TraceType.CTX,
            switch,
            f'"%u:%u:%u  ==> %u:%u:%u [%03u]", {_SWITCHED}REC->next_state, REC->next_cpu',
        ),
        Layout(
            "wakeup",
            TraceType.WAKE,
            switch,
            f'"%u:%u:%u  ==+ %u:%u:%u [%03u]", {_SWITCHED}REC->next_state, REC->next_cpu',
        ),
        Layout(
            "kernel_stack",
            TraceType.STACK,
            stack,
            '"' + "\\t=> %ps\\n" * STACK_ENTRIES + '"' + callers,
        ),
        Layout(
            "print",
            TraceType.PRINT,
            (*fields(ip), Field("char", "buf[]", COMMON_SIZE + long, 0)),
            '"%ps: %s", (void *)REC->ip, REC->buf',
        ),
        Layout(
            "bprint",
            TraceType.BPRINT,
            (
                *fields(ip, ("const char *", "fmt", long)),
                Field("u32", "buf[]", COMMON_SIZE + 2 * long, 0),
            ),
            '"%ps: %s", (void *)REC->ip, REC->fmt',
        ),
        Layout(
            "bputs",
            TraceType.BPUTS,
            fields(ip, ("const char *", "str", long)),
            '"%ps: %s", (void *)REC->ip, REC->str',
        ),
        Layout(
            "raw_data",
            TraceType.RAW_DATA,
            (*fields((number, "id", 4)), Field("char", "buf[]", COMMON_SIZE + 4, 0)),
            '"id:%04x %08x", REC->id, (int)REC->buf[0]',
        ),
        Layout(
            "funcgraph_exit",
            TraceType.GRAPH_RET,
            fields(*exit_fields),
            '"<-- %ps (%d) (start: %llx  end: %llx) over: %d", (void *)REC->func, REC->depth, '
            "REC->calltime, REC->rettime, REC->depth",
        ),
        Layout(
            "funcgraph_entry",
            TraceType.GRAPH_ENT,
            fields(func, ("int", "depth", 4)),
            '"--> %ps (%d)", (void *)REC->func, REC->depth',
        ),
    )


def _placed(wanted: Sequence[tuple[str, str, int]]) -> Iterator[Field]:
    offset = COMMON_SIZE
    for kind, name, size in wanted:
        yield Field(kind, name, offset, size, kind in ("int", "long"))
        offset += size


_WITH_ID = (TraceType.FN, TraceType.PRINT)
"""The events with a file id (`FTRACE_ENTRY_REG`)."""


def files(long: int, of_print: Mapping[str, File]) -> Mapping[str, Node]:
    """Return the files of this module in events/; a long of the guest has `long` bytes.

    `of_print` has the files of ftrace:print's triggers. The other events have no triggers.
    """
    events: dict[str, Node] = {
        each.name: Directory(
            {
                "format": FixedFile(format_text(each)),
                "hist": FixedFile(""),
                **({"id": FixedFile(f"{int(each.number)}\n")} if each.number in _WITH_ID else {}),
                **(of_print if each.number == TraceType.PRINT else {}),
            }
        )
        for each in layouts(long)
    }
    return {
        "ftrace": Directory(events),
        "header_event": FixedFile(HEADER_EVENT),
        "header_page": FixedFile(header_page(long)),
    }
