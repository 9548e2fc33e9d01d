"""Fuzz every kind of input: `python -m tests.fuzz [--n N] [--minutes M] [--seed S] [KIND...]`.

Prints a table, and each failure with its seed and its input. The exit status is 1 if there is
one. The same seed makes the same case, so `--seed S --n 1 KIND` tries it again.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

from .kinds import KINDS
from .run import Result, fuzz

CASES = {"payload": 1000}
"""Cases of a kind without --n and --minutes, if not 200: payloads take milliseconds."""

LAYOUT = "{:<10} {:>7} {:>8} {:>7} {:>8}  {}"


def row(result: Result) -> str:
    """Return the line of the table for one kind."""
    outcomes = ", ".join(f"{number} {what}" for what, number in result.outcomes.most_common(6))
    return LAYOUT.format(
        result.kind,
        result.cases,
        len(result.failures),
        f"{result.cpu:.0f}",
        f"{result.peak >> 20}",
        outcomes,
    )


def main() -> int:
    """Run the cases and print what became of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"default: {' '.join(KINDS)}")
    parser.add_argument("--n", type=int, help="cases of each kind (default: 200, or more)")
    parser.add_argument("--minutes", type=float, help="minutes for all kinds, instead of --n")
    parser.add_argument("--seed", type=int, default=1, help="first seed (default: 1)")
    parser.add_argument(
        "--keep",
        type=Path,
        default=Path(tempfile.gettempdir()) / "dynftrace-failures",
        help="folder for inputs that fail (default: %(default)s)",
    )
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))  # leave no folders
    unknown = [name for name in options.kinds if name not in KINDS]
    if unknown:
        parser.error(f"unknown kind {unknown[0]!r} (choose from: {', '.join(KINDS)})")
    names = options.kinds or list(KINDS)
    endless = options.minutes and options.n is None
    print(LAYOUT.format("kind", "cases", "failures", "CPU s", "peak MB", "outcomes"))
    end = time.monotonic() + 60 * options.minutes if options.minutes else None
    failures = []
    for done, name in enumerate(names):
        # Each kind gets an equal part of the time that is left.
        now = time.monotonic()
        until = None if end is None else now + (end - now) / (len(names) - done)
        number = options.n or CASES.get(name, 200)
        seeds = count(options.seed) if endless else range(options.seed, options.seed + number)
        result = fuzz(KINDS[name], iter(seeds), options.keep, until)
        print(row(result), flush=True)
        failures += result.failures
    print(*failures, sep="\n", end="")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
