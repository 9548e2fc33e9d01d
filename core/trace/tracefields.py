"""The fields of a line of the trace: task, flags, time, a marker's text.

Source: trace_print_lat_fmt() and trace_print_time() in
kernel/trace/trace_output.c, __trace_find_cmdline() in kernel/trace/trace.c, 6.1;
the characters for lazy preemption are those of 6.13.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from .. import abi
from ..abi import TraceFlag
from ..errors import UsageError


def cmdlines(data: bytes, byteorder: str) -> dict[int, str]:
    """The names by pid in the guest's table `saved_cmdlines`; entries of pid 0 are unused."""
    layout = abi.saved_cmdline(byteorder)
    table = np.frombuffer(data[: len(data) // layout.itemsize * layout.itemsize], layout)
    return {
        int(pid): comm.decode("ascii", "backslashreplace")
        for pid, comm in zip(table["pid"].tolist(), table["comm"].tolist(), strict=True)
        if pid
    }


def comm_of(pid: int, known: Mapping[int, str] | None) -> str:
    """The name shown for `pid` (`trace_find_cmdline`)."""
    if pid == 0:
        return "<idle>"
    if pid < 0:
        return "<XXX>"
    return (known or {}).get(pid, "<...>")


def flag_characters(flags: int) -> str:
    """The first three of the five: irqs off, need-resched, context."""
    bh_off = flags & TraceFlag.BH_OFF
    irqs = ("D" if bh_off else "d") if flags & TraceFlag.IRQS_OFF else ("b" if bh_off else ".")
    wanted = (
        bool(flags & TraceFlag.NEED_RESCHED),
        bool(flags & TraceFlag.PREEMPT_RESCHED),
        bool(flags & TraceFlag.NEED_RESCHED_LAZY),
    )
    resched = _RESCHED[wanted]
    hard, soft = flags & TraceFlag.HARDIRQ, flags & TraceFlag.SOFTIRQ
    if flags & TraceFlag.NMI:
        context = "Z" if hard else "z"
    elif hard:
        context = "H" if soft else "h"
    else:
        context = "s" if soft else "."
    return irqs + resched + context


_RESCHED = {
    (False, False, False): ".",
    (True, False, False): "n",
    (False, True, False): "p",
    (False, False, True): "l",
    (True, True, False): "N",
    (True, False, True): "b",
    (False, True, True): "L",
    (True, True, True): "B",
}


def preempt_characters(preempt: int) -> str:
    """The last two: depth of preempt_count and of migrate_disable, hex, `.` for 0."""
    depth, migrate = preempt & 0xF, preempt >> 4
    return (f"{depth:x}" if depth else ".") + (f"{migrate:x}" if migrate else ".")


def split_time(ts: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Times in ns as seconds and microseconds, rounded."""
    microseconds = (ts + np.uint64(500)) // np.uint64(1000)
    seconds, rest = np.divmod(microseconds, np.uint64(1_000_000))
    return seconds, rest


def time_text(ts: int, in_ns: bool) -> str:
    """The time with the space before it: seconds and microseconds, rounded, or a number."""
    if not in_ns:
        return f" {ts:12d}"
    microseconds = (ts + 500) // 1000
    return f" {microseconds // 1_000_000:5d}.{microseconds % 1_000_000:06d}"


def latest_time(text: str, in_ns: bool) -> int:
    """The last stamp that is printed as the time `text`; with more digits, down to ns, that one.

    Raises `UsageError`.
    """
    match = _TIME.fullmatch(text)
    if match is None or (match["part"] and not in_ns):
        raise UsageError(f"'{text}' is no time of the trace")
    part = match["part"] or ""
    if not in_ns:
        return int(match["whole"])
    ns = int(match["whole"]) * 1_000_000_000 + int(part.ljust(9, "0"))
    return ns if len(part) > 6 else ns + 499


def exact_time(ts: int, in_ns: bool) -> str:
    """The stamp `ts` as `latest_time` reads it."""
    return f"{ts // 1_000_000_000}.{ts % 1_000_000_000:09d}" if in_ns else str(ts)


_LONG = (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000)
_MARKS = " +!#*@$"
"""Thresholds of a duration in ns, and the sign of one above 0, 1, … of them
(`trace_find_mark`)."""


def overhead_mark(ns: int) -> str:
    """Return the character that precedes a duration, a space for a short one."""
    return _MARKS[bisect_left(_LONG, ns)]


_TIME = re.compile(r"(?P<whole>[0-9]{1,15})(?:\.(?P<part>[0-9]{1,9}))?", re.ASCII)


def printable(text: bytes) -> str:
    """What a print event says, without its last line end; bytes that are not text escaped."""
    return text.decode("utf-8", "backslashreplace").removesuffix("\n")
