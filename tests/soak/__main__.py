"""Use dynftrace for long: `python -m tests.soak [--minutes M] [--n N] [JOB...]`.

Each job runs in a process of its own: its number of rounds, or `--minutes`. Prints memory at
start, after a third of the rounds and at the end, open files, and threads. The exit status is 1
if any of them has grown since then.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from .jobs import JOBS
from .run import in_child, soak

LAYOUT = "{:<9}{:>8}{:>8}{:>22}{:>14}{:>14}  {}"
MINUTES = 10.0


def main() -> int:
    """Run the jobs and print one line for each."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"default: {' '.join(JOBS)}")
    parser.add_argument("--minutes", type=float, help=f"of shell and console (default: {MINUTES})")
    parser.add_argument("--n", type=int, help="rounds, instead of each job's own number")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = [name for name in options.jobs if name not in JOBS]
    if unknown:
        parser.error(f"unknown job {unknown[0]!r} (choose from: {', '.join(JOBS)})")
    seconds = None if options.minutes is None else 60 * options.minutes
    if options.child:
        (name,) = options.jobs
        print(json.dumps(asdict(soak(name, JOBS[name][0], options.n, seconds))))
        return 0
    print(LAYOUT.format("job", "rounds", "CPU s", "MB start/warm/end", "files", "threads", ""))
    leaks = False
    for name in options.jobs or JOBS:
        number = options.n or JOBS[name][1]
        timed = seconds if number is not None else seconds or 60 * MINUTES
        done = in_child(name, number, timed)
        levels = (done.start, done.warm, done.end)
        memory = "/".join(str(each.memory >> 20) for each in levels)
        files, threads = (
            "/".join(str(getattr(each, of)) for each in levels) for of in ("files", "threads")
        )
        grown = f"GROWS: {', '.join(done.leaks)}" if done.leaks else ""
        leaks |= bool(grown)
        row = (name, done.rounds, f"{done.cpu:.0f}", memory, files, threads, grown)
        print(LAYOUT.format(*row), flush=True)
    return 1 if leaks else 0


if __name__ == "__main__":
    sys.exit(main())
