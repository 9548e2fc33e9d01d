"""Time stamps of the trace clock as text, and back.

Source: trace_print_time() in kernel/trace/trace_output.c, 6.1.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError

_TIME = re.compile(r"(?P<whole>[0-9]{1,15})(?:\.(?P<part>[0-9]{1,9}))?", re.ASCII)


def split_time(ts: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return times in ns as seconds and microseconds, rounded."""
    microseconds = (ts + np.uint64(500)) // np.uint64(1000)
    seconds, rest = np.divmod(microseconds, np.uint64(1_000_000))
    return seconds, rest


def time_text(ts: int, in_ns: bool) -> str:
    """Return a time stamp after a space: seconds and microseconds, rounded, or a plain number."""
    if not in_ns:
        return f" {ts:12d}"
    microseconds = (ts + 500) // 1000
    return f" {microseconds // 1_000_000:5d}.{microseconds % 1_000_000:06d}"


def latest_time(text: str, in_ns: bool) -> int:
    """Return the last time stamp that the trace prints as `text`.

    A `text` with digits below microseconds gives that time itself. Raises `UsageError`.
    """
    match = _TIME.fullmatch(text)
    if match is None or (match["part"] and not in_ns):
        raise UsageError(f"invalid time '{text}': copy one from the trace, such as 1.234567")
    part = match["part"] or ""
    if not in_ns:
        return int(match["whole"])
    ns = int(match["whole"]) * 1_000_000_000 + int(part.ljust(9, "0"))
    return ns if len(part) > 6 else ns + 499


def exact_time(ts: int, in_ns: bool) -> str:
    """Return the time stamp `ts` in full, for `latest_time` to read."""
    return f"{ts // 1_000_000_000}.{ts % 1_000_000_000:09d}" if in_ns else str(ts)
