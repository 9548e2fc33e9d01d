"""The kernel's log."""

from __future__ import annotations

from dynftrace.core.machine.dmesg import LIMIT, LINE_MAX, Dmesg


def test_lines_carry_seconds_and_microseconds() -> None:
    dmesg = Dmesg()
    dmesg.write(4_801_999, "one\ntwo\n")
    dmesg.write(12_345_000_001_000, "late")
    assert dmesg.lines == (
        "[    0.004801] one",
        "[    0.004801] two",
        "[12345.000001] late",
    )
    assert dmesg.text().splitlines() == list(dmesg.lines)


def test_control_characters_are_escaped() -> None:
    dmesg = Dmesg()
    dmesg.write_bytes(0, b"\x1b[2J\x07\xff\ttab\0\0")
    assert dmesg.lines == ("[    0.000000] \\x1b[2J\\x07\\xff\ttab",)


def test_messages_and_the_log_have_a_maximum_length() -> None:
    dmesg = Dmesg()
    dmesg.write_bytes(0, b"x" * 100_000)
    assert len(dmesg.lines[0]) == LINE_MAX + len("[    0.000000] ")
    for number in range(LIMIT + 10):
        dmesg.write(0, str(number))
    assert len(dmesg) == LIMIT
    assert dmesg.total == LIMIT + 11
    assert dmesg.lines[-1].endswith(f" {LIMIT + 9}")


def test_since_returns_new_lines_only() -> None:
    dmesg = Dmesg()
    dmesg.write(0, "old")
    before = dmesg.total
    assert dmesg.since(before) == ()
    dmesg.write(0, "new")
    assert dmesg.since(before) == ("[    0.000000] new",)
    assert len(dmesg.since(-5)) == 2
