"""Fprobe event definitions: their meaning, refused definitions, and the format of values."""

from __future__ import annotations

import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynftrace import arches
from dynftrace.core.errors import TracefsError
from dynftrace.core.events.fprobe import Fprobe, parse

ABI = arches.load("x86_64").facts.abi
NAMES = [register.name for register in ABI.pt_regs]


def made(line: str, size: int = 8) -> Fprobe:
    return parse(line.split(), ABI, size)


@pytest.mark.parametrize(
    ("line", "listed"),
    [
        ("f kfree", "f:fprobes/kfree__entry kfree"),
        ("f:freed kfree", "f:fprobes/freed kfree"),
        ("f:mine/freed kfree", "f:mine/freed kfree"),
        ("f:mine/ kfree", "f:mine/kfree__entry kfree"),
        ("f: foo.isra.0", "f:fprobes/foo_isra_0__entry foo.isra.0"),
        ("f kfree $arg1", "f:fprobes/kfree__entry kfree arg1=$arg1"),
        ("f kfree p=$arg1:x32 %rip", "f:fprobes/kfree__entry kfree p=$arg1:x32 arg2=%rip"),
    ],
)
def test_definitions_are_listed_with_their_default_names(line: str, listed: str) -> None:
    assert made(line).line == listed
    assert made(listed).line == listed


@pytest.mark.parametrize(
    ("line", "reason", "word"),
    [
        ("p kfree", "Invalid probe type", "p"),
        ("fx kfree", "Invalid probe type", "fx"),
        ("f:a/b/c kfree", "Invalid probe type", "f:a/b/c"),
        ("f9 kfree", "Max active is only for return probes", "f9"),
        ("f:x", "Probe point is not specified", "f:x"),
        ("f kfree%return", "Return probes are not known here", "kfree%return"),
        ("f:/x kfree", "Group name is not specified", "f:/x"),
        ("f:9/x kfree", "Group name must follow the same rules as C identifiers", "9"),
        ("f:a/b-c kfree", "Event name must follow the same rules as C identifiers", "b-c"),
        (f"f:{'x' * 64} kfree", "Event name is too long", "x" * 64),
        ("f kfree $arg0", "Only the first 6 arguments come in registers", "$arg0"),
        ("f kfree $arg7", "Only the first 6 arguments come in registers", "$arg7"),
        ("f kfree $argx", "Invalid $-variable specified", "$argx"),
        ("f kfree $retval", "Invalid $-variable specified", "$retval"),
        ("f kfree %di", "Invalid register name", "%di"),
        ("f kfree +0($arg1)", "Invalid fetch argument", "+0($arg1)"),
        ("f kfree a=b=c", "Invalid fetch argument", "b=c"),
        ("f kfree a=", "No argument expression", "a="),
        (
            "f kfree 1a=$arg1",
            "Argument name must follow the same rules as C identifiers",
            "1a=$arg1",
        ),
        (f"f kfree {'a' * 32}=$arg1", "Argument name is too long", "a" * 32),
        ("f kfree $arg1:string", "Unknown type is specified", "$arg1:string"),
        ("f kfree $arg1:u7", "Unknown type is specified", "$arg1:u7"),
        ("f kfree $arg1:", "Unknown type is specified", "$arg1:"),
        ("f kfree a=$arg1 a=$arg2", "This argument name is already used", "a"),
        ("f kfree arg2=$arg1 $arg2", "This argument name is already used", "arg2"),
        ("f kfree __probe_ip=$arg1", "This argument name is already used", "__probe_ip"),
        ("f kfree " + "$arg1 " * 129, "Too many arguments are specified", "$arg1"),
    ],
)
def test_an_invalid_definition_is_refused_with_a_reason(line: str, reason: str, word: str) -> None:
    with pytest.raises(TracefsError) as caught:
        made(line)
    assert caught.value.errno == errno.EINVAL
    assert str(caught.value) == f"{os.strerror(errno.EINVAL)}: {reason}: {word}"


@given(st.lists(st.text(min_size=1), min_size=1, max_size=5))
def test_any_text_is_a_definition_or_is_refused(words: list[str]) -> None:
    try:
        fprobe = parse(words, ABI, 8)
    except TracefsError as error:
        assert error.errno == errno.EINVAL
    else:
        assert parse(fprobe.line.split(" "), ABI, 8) == fprobe


@pytest.mark.parametrize(
    ("fetch", "value", "shown"),
    [
        ("$arg1", 0xFFFF_FFFF_8100_0000, "0xffffffff81000000"),
        ("%rdi:x64", 0, "0x0"),
        ("$arg1:x8", 0x1FF, "0xff"),
        ("$arg1:u32", 2**64 - 1, "4294967295"),
        ("$arg1:u64", 2**64 - 1, "18446744073709551615"),
        ("$arg1:s8", 0x80, "-128"),
        ("$arg1:s16", 0x7FFF, "32767"),
        ("$arg1:s64", 2**64 - 1, "-1"),
        ("$arg1:symbol", 0x1234, "<1234>"),
    ],
)
def test_values_are_formatted_by_type(fetch: str, value: int, shown: str) -> None:
    registers = [0] * len(NAMES)
    registers[NAMES.index("rdi")] = value
    text = made(f"f:e kfree v={fetch}").values("kfree+0x0/0x9", registers, lambda at: f"<{at:x}>")
    assert text == f" (kfree+0x0/0x9) v={shown}"


def test_arguments_are_read_where_the_abi_puts_them() -> None:
    order = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
    made_ = made("f:e kfree " + " ".join(f"$arg{n}" for n in range(1, 7)))
    assert [NAMES[arg.row] for arg in made_.arguments] == list(order)
    assert [arg.bits for arg in made("f kfree $arg1", size=4).arguments] == [32]
