"""Texts in columns: a task's name, the flags, the sign of a long duration, a marker's text.

Source: trace_print_lat_fmt() and trace_find_mark() in kernel/trace/trace_output.c,
__trace_find_cmdline() in kernel/trace/trace.c, 6.1, and 6.13 for the characters of lazy
preemption.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ...abi import TraceFlag


def cmdlines(table: NDArray[np.void]) -> dict[int, str]:
    """Return the names by pid in rows of `struct saved_cmdline`; pid 0 marks a free entry."""
    table = table[(table["pid"] != 0) & (table["comm"] != b"")]
    return {
        int(pid): comm.decode("ascii", "backslashreplace")
        for pid, comm in zip(table["pid"].tolist(), table["comm"].tolist(), strict=True)
    }


def tgids(table: NDArray[np.void]) -> dict[int, int]:
    """Return the thread groups by pid in the same rows, without unrecorded ones (0)."""
    table = table[(table["pid"] != 0) & (table["tgid"] != 0)]
    return dict(zip(table["pid"].tolist(), table["tgid"].tolist(), strict=True))


def comm_of(pid: int, known: Mapping[int, str] | None) -> str:
    """Return the name shown for `pid` (`trace_find_cmdline`)."""
    if pid == 0:
        return "<idle>"
    if pid < 0:
        return "<XXX>"
    return (known or {}).get(pid, "<...>")


def flag_characters(flags: int) -> str:
    """Return the first three of the five flag characters: irqs off, need-resched, context."""
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
    """Return the last two flag characters: preempt_count and migrate_disable, hex, `.` for 0."""
    depth, migrate = preempt & 0xF, preempt >> 4
    return (f"{depth:x}" if depth else ".") + (f"{migrate:x}" if migrate else ".")


_LONG = (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000)
_MARKS = " +!#*@$"
"""Thresholds of a duration in ns, and the sign of one above 0, 1, … of them
(`trace_find_mark`)."""


def overhead_mark(ns: int) -> str:
    """Return the character that precedes a duration, a space for a short one."""
    return _MARKS[bisect_left(_LONG, ns)]


def printable(text: bytes) -> str:
    """Return a marker's text without its last line end; bytes that are not UTF-8 are escaped."""
    return text.decode("utf-8", "backslashreplace").removesuffix("\n")
