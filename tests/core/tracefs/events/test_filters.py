"""Filters of events: the guest decides, and a wrong filter says what is wrong."""

from __future__ import annotations

import fnmatch
import random
import struct
from collections.abc import Callable, Mapping
from typing import TypeAlias

import pytest

from dynftrace.core.events.fields import Field
from dynftrace.core.events.filter import FilterError, parse_filter
from dynftrace.core.session.session import Session
from dynftrace.core.tracefs.events.filters import stored

from ....support.user import User

Sh = Callable[[str], str]
Record: TypeAlias = Mapping[str, int | str]

FIELDS = (
    Field("char", "name[8]", 8, 8),
    Field("int", "a", 16, 4, True),
    Field("unsigned short", "b", 20, 2),
    Field("signed char", "c", 22, 1, True),
    Field("unsigned long long", "d", 24, 8),
    Field("__data_loc char[]", "text", 32, 4),
)
TEXTS = ("", "a", "ab", "abc", "bca", "x-y", "a*c")
PATTERNS = ("*", "a*", "*c", "*b*", "?b", "[a-b]*", "[!a]*", "a?c", "", "x-y")
NUMBERS = (0, 1, -1, 2, 127, -128, 200, 65535, 2**31 - 1, 2**40)


def comparison(rng: random.Random) -> tuple[str, Callable[[Record], bool]]:
    """Return a test, and the same in Python."""
    if rng.random() < 0.4:
        field = rng.choice(("name", "text"))
        if rng.random() < 0.6:
            pattern = rng.choice(PATTERNS)
            return f'{field} ~ "{pattern}"', lambda row: fnmatch.fnmatchcase(
                str(row[field]), pattern
            )
        text = rng.choice(TEXTS)
        if rng.random() < 0.5:
            return f"{field} == '{text}'", lambda row: row[field] == text
        return f'{field} != "{text}"', lambda row: row[field] != text
    field = rng.choice("abcd")
    number = rng.choice(NUMBERS)
    bits, signed = {"a": (32, 1), "b": (16, 0), "c": (8, 1), "d": (64, 0)}[field]
    number = abs(number) if not signed else number
    cut = number & (1 << bits) - 1
    cut -= (1 << bits) if signed and cut >> bits - 1 else 0
    sign = rng.choice(("==", "!=", "<", "<=", ">", ">=", "&"))
    python = {
        "==": int.__eq__,
        "!=": int.__ne__,
        "<": int.__lt__,
        "<=": int.__le__,
        ">": int.__gt__,
        ">=": int.__ge__,
        "&": lambda x, y: bool(x & y),
    }[sign]
    return f"{field}{sign}{number}", lambda row: python(int(row[field]), cut)


def expression(rng: random.Random, depth: int) -> tuple[str, Callable[[Record], bool]]:
    """Return a filter, and the same in Python."""
    if not depth:
        return comparison(rng)
    left, is_left = expression(rng, rng.randrange(depth))
    if rng.random() < 0.3:
        return f"!({left})", lambda row: not is_left(row)
    right, is_right = expression(rng, rng.randrange(depth))
    if rng.random() < 0.5:
        return f"({left}) && ({right})", lambda row: is_left(row) and is_right(row)
    return f"({left} || ({right}))", lambda row: is_left(row) or is_right(row)


@pytest.mark.parametrize("arch", ["x86_64", "mips", "ppc64", "arm64"])
def test_the_guest_evaluates_filters_as_the_language_defines(arch: str) -> None:
    rng = random.Random(arch)
    user = User(arch)
    session = user.session
    memory = session.boot.machine.memory
    order = "<" if memory.byteorder == "little" else ">"
    files = session.boot.array.event_files
    place = files.blocks.place(bytes(64))
    met = set()
    for _ in range(60):
        text, python = expression(rng, 3)
        row: dict[str, int | str] = {
            "name": rng.choice(TEXTS),
            "text": rng.choice(TEXTS),
            "a": rng.choice([number for number in NUMBERS if -(2**31) <= number < 2**31]),
            "b": rng.choice((0, 1, 200, 65535)),
            "c": rng.choice((0, 1, -1, 127, -128)),
            "d": rng.choice((0, 1, 200, 2**40, 2**64 - 1)),
        }
        string = str(row["text"]).encode() + b"\0"
        record = struct.pack(
            f"{order}8x8siHbxQI",
            *(str(row["name"]).encode(), row["a"], row["b"], row["c"], row["d"]),
            len(string) << 16 | 36,
        )
        record += string
        memory.write(place, record)
        tests = stored(files, parse_filter(text, FIELDS))
        result = session.call("filter_match_preds", [tests, place, len(record)])
        assert result == python(row), (text, row)
        files.blocks.free(tests)
        met.add(result)
    assert met == {0, 1}


def test_operators_bind_as_in_the_kernel() -> None:
    tests = parse_filter("a == 1 || b == 2 && !c == 3", FIELDS)
    assert [(each.on_true, each.on_false) for each in tests] == [
        (0xFFFF_FFFF, 1),
        (2, 0xFFFF_FFFE),
        (0xFFFF_FFFE, 0xFFFF_FFFF),
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nosuch == 1", "Field not found"),
        ("a = 1", "Invalid operator"),
        ("a == x", "Invalid value (did you forget quotes)?"),
        ('a == "x"', "Expecting numeric field"),
        ("name == 1", "Expecting string field"),
        ('name < "x"', "Illegal operation for field type"),
        ("a ~ 1", "Illegal operation for field type"),
        ("a == 0x", "Illegal integer value"),
        ("a == 1 b == 2", "Too many terms in predicate expression"),
        ("a == 1 &&", "No filter found"),
        ("a == 1 || !! ", "No filter found"),
        ("(a == 1", "Too many '('"),
        ("a == 1)", "Too few '('"),
        ('name == "x', "Missing matching quote"),
        ("a == 1 & b == 1", "Too many terms in predicate expression"),
        ("a == " + "1" * 30, "Operand too long"),
        ("(" * 3000 + "a == 1" + ")" * 2999, "Too many '('"),
        ("&&", None),
        ("()", None),
    ],
)
def test_errors_are_the_kernels(text: str, reason: str | None) -> None:
    with pytest.raises(FilterError) as raised:
        parse_filter(text, FIELDS)
    assert raised.value.reason == reason


def test_a_filter_keeps_events_out_of_the_buffer(session: Session, sh: Sh) -> None:
    path = "events/sched/sched_switch"
    sh(f"echo 'prev_pid == 0' > {path}/filter; echo 1 > {path}/enable; run syscalls")
    shown = [line for line in sh("cat trace").splitlines() if "sched_switch:" in line]
    assert shown and all(" prev_pid=0 " in line for line in shown)
    assert len(session.boot.array.ring.events()) == len(shown)
    assert sh(f"cat {path}/filter") == "prev_pid == 0\n"
    sh(f"echo 0 > {path}/filter; echo > trace; run syscalls")
    assert sh(f"cat {path}/filter") == "none\n"
    assert " prev_pid=0 " in sh("cat trace") and len(session.boot.array.ring.events()) > len(shown)


def test_a_wrong_filter_is_shown_with_its_error() -> None:
    user = User("x86_64")
    path = "events/irq/softirq_raise/filter"
    assert "Invalid argument" in user.refused(f"echo 'vec == x' > {path}")
    assert user(f"cat {path}") == (
        "vec == x\n       ^\nparse_error: Invalid value (did you forget quotes)?\n\n"
    ).replace("       ^", " " * 8 + "^")
    user("echo 'irq == 0' > events/irq/filter")
    assert user("cat events/irq/irq_handler_exit/filter") == "irq == 0\n"
    assert "a subsystem's events" in user(f"cat {path}")
    assert "global filter" in user("cat events/irq/filter")
    assert "Invalid argument" in user.refused("echo 'nosuch == 0' > events/irq/filter")
    assert "a subsystem's events" in user("cat events/irq/filter")
    user("echo 0 > events/irq/filter")
    assert user(f"cat {path}") == "none\n" and "global filter" in user("cat events/irq/filter")
