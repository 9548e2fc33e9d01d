"""What becomes of a check: the three outcomes, and how a check states one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Passed:
    """The port does what it owes."""


@dataclass(frozen=True, slots=True)
class Failed:
    """It does not; the bytes at `ip` prove it, where it is a matter of bytes."""

    reason: str
    ip: int | None = None
    expected: bytes = b""
    found: bytes = b""


@dataclass(frozen=True, slots=True)
class NotProvided:
    """The port does not have this."""

    reason: str


Outcome = Passed | Failed | NotProvided


class Failure(Exception):
    """Raised by a check: it fails with `outcome`."""

    def __init__(
        self, reason: str, ip: int | None = None, expected: bytes = b"", found: bytes = b""
    ) -> None:
        super().__init__(reason)
        self.outcome = Failed(reason, ip, expected, found)


class Absent(Exception):
    """Raised by a check: the port does not have what is looked at."""


def expect(
    holds: object, reason: str, ip: int | None = None, expected: bytes = b"", found: bytes = b""
) -> None:
    """Raise `Failure` unless `holds`; `reason` says what is wrong."""
    if not holds:
        raise Failure(reason, ip, expected, found)


def same_text(reason: str, ip: int, expected: bytes, found: bytes) -> None:
    """Raise `Failure` unless the bytes at `ip` are as expected."""
    expect(expected == found, reason, ip, expected, found)
