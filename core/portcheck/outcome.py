"""The three outcomes of a check, and the exceptions that state them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Passed:
    """The port does its duty."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The port does not do its duty; the bytes at `ip` prove it, if bytes are involved."""

    reason: str
    ip: int | None = None
    expected: bytes = b""
    found: bytes = b""


@dataclass(frozen=True, slots=True)
class NotProvided:
    """The port does not have the feature."""

    reason: str


Outcome = Passed | Failed | NotProvided


class Failure(Exception):
    """Raised by a check that fails; `outcome` says why."""

    def __init__(
        self, reason: str, ip: int | None = None, expected: bytes = b"", found: bytes = b""
    ) -> None:
        super().__init__(reason)
        self.outcome = Failed(reason, ip, expected, found)


class Absent(Exception):
    """Raised by a check if the port does not have the feature under test."""


def expect(
    holds: object, reason: str, ip: int | None = None, expected: bytes = b"", found: bytes = b""
) -> None:
    """Raise `Failure` unless `holds`; `reason` says what is wrong."""
    if not holds:
        raise Failure(reason, ip, expected, found)


def same_text(reason: str, ip: int, expected: bytes, found: bytes) -> None:
    """Raise `Failure` unless the bytes at `ip` are as expected."""
    expect(expected == found, reason, ip, expected, found)
