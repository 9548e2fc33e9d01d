"""Numbers, parsed as the kernel parses a write."""

from __future__ import annotations

import errno

import pytest

from dynftrace.core.errors import TracefsError
from dynftrace.core.tracefs.number import boolean, kstrtoul, switch


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("1\n", 1), ("+7", 7), ("0012", 12), (str(2**64 - 1), 2**64 - 1), ("0" * 4000, 0)],
)
def test_a_number_is_parsed(text: str, value: int) -> None:
    assert kstrtoul(text) == value


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", errno.EINVAL),
        ("\n", errno.EINVAL),
        (" 1", errno.EINVAL),
        ("1 ", errno.EINVAL),
        ("1\n\n", errno.EINVAL),
        ("-1", errno.EINVAL),
        ("++1", errno.EINVAL),
        ("1_0", errno.EINVAL),
        ("0x1", errno.EINVAL),
        ("²", errno.EINVAL),
        ("yes", errno.EINVAL),
        (str(2**64), errno.ERANGE),
        ("9" * 5000, errno.ERANGE),
    ],
)
def test_an_invalid_number_is_refused(text: str, number: int) -> None:
    with pytest.raises(TracefsError) as caught:
        kstrtoul(text)
    assert caught.value.errno == number


def test_booleans_and_switches_are_parsed() -> None:
    assert boolean("2\n") and not boolean("0")
    assert switch("1") and not switch("0\n")
    with pytest.raises(TracefsError):
        switch("2")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("10", 10),
        ("010", 8),
        ("0x1F\n", 31),
        ("+0X1f", 31),
        ("0" + "1" + "7" * 21, 2**64 - 1),
    ],
)
def test_the_prefix_selects_the_base(text: str, value: int) -> None:
    assert kstrtoul(text, base=0) == value


@pytest.mark.parametrize("text", ["08", "0x", "0xg", "1f", "x1", "0b1", "1_0", "١"])
def test_digits_outside_the_base_are_refused(text: str) -> None:
    with pytest.raises(TracefsError) as caught:
        kstrtoul(text, base=0)
    assert caught.value.errno == errno.EINVAL
