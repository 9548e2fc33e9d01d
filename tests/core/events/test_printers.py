"""The text of events: trace_printk, and events whose print format cannot be evaluated."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from dynftrace.core.events.fields import Field, Layout
from dynftrace.core.events.formats import EventFormat
from dynftrace.core.events.printers import Printer, printk_formats

STRINGS = printk_formats(
    '0x10 : "%c%hd %pI4|%-4s|%*lld%%\\n"\n0x20 : "just text\\n"\n0x28 : "%p"\nnonsense\n'
)


def printer(name: str, order: str, long: int, **pointers: Any) -> Printer:
    fields = (
        Field("unsigned long", "ip", 8, long),
        Field("const char *", "str" if name == "bputs" else "fmt", 8 + long, long),
        *(() if name == "bputs" else (Field("u32", "buf[]", 8 + 2 * long, 0),)),
    )
    layout = Layout("little" if order == "<" else "big", long)
    event = EventFormat("ftrace", name, 6, fields, '"%ps: %s", REC->ip, REC->fmt', layout)
    return Printer(event, lambda address, offset: f"f{address:x}", STRINGS, **pointers)


@pytest.mark.parametrize(("order", "long", "word"), [("<", 8, "Q"), (">", 4, "I")])
def test_arguments_are_unpacked_as_vbin_printf_packs_them(order: str, long: int, word: str) -> None:
    # A character, a byte of padding, a short; texts; then a width and 8 bytes, aligned to 4.
    packed = struct.pack(f"{order}cxh9s3siq", b"x", -2, b"10.0.0.1", b"ab", 3, -7)
    head = bytes(8) + struct.pack(f"{order}2{word}", 0x99, 0x10)
    assert printer("bprint", order, long).shown(head + packed) == (
        "f99",
        ": x-2 10.0.0.1|ab  | -7%",
    )
    text = bytes(8) + struct.pack(f"{order}2{word}", 0x99, 0x20)
    assert printer("bputs", order, long).shown(text) == ("f99", ": just text")


def test_without_its_string_an_event_is_printed_by_its_print_fmt() -> None:
    record = bytes(8) + struct.pack("<QQ", 0x99, 0x30) + b"x"
    assert printer("bprint", "<", 8).shown(record) == ("bprint:", " f99: (0x30)")
    assert printer("bprint", "<", 8).shown(bytes(3)) == ("bprint:", " ip=? fmt=? buf=[]")


def test_only_trace_printk_hides_pointers_without_the_option() -> None:
    record = bytes(8) + struct.pack("<QQQ", 0x99, 0x28, 0x1234)
    _, plain = printer("bprint", "<", 8).shown(record)
    assert plain == ": 0000000000001234"
    _, text = printer("bprint", "<", 8, ptr_key=b"key", hash_ptr=False).shown(record)
    assert text != plain and len(text) == len(plain) and text.startswith(": 00000000")
