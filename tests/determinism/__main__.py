"""Compare all ports with the committed hashes: `python -m tests.determinism [OPTION...]`.

Each run is a process of its own, with its Python, PYTHONHASHSEED and clock. The exit status is
1 if any hash differs. `--write` writes the hashes of this Python, to be committed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

from dynftrace import arches
from dynftrace.core.machine.machine import MAX_CPUS

from .flow import HASHES, committed, digest

HEAD = "# port, CPUs, SHA-256; written by: python -m tests.determinism --write\n"


def main() -> int:
    """Run, compare and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.determinism", description=__doc__)
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="PATH",
        help="an interpreter with the packages of requirements.lock (default: this one)",
    )
    parser.add_argument("--seeds", default="0 1 4242", help="values of PYTHONHASHSEED")
    parser.add_argument(
        "--cpus", default=" ".join(map(str, range(1, MAX_CPUS + 1))), help="numbers of CPUs"
    )
    parser.add_argument("--write", action="store_true", help="write the hashes of this Python")
    parser.add_argument("--print", dest="clock", help=argparse.SUPPRESS)
    options = parser.parse_args()
    numbers = [int(each) for each in options.cpus.split()]
    if options.clock:
        native = {"native": True, "fallback": False}[options.clock]
        for arch, cpus in product(arches.names(), numbers):
            print(arch, cpus, digest(arch, cpus, native), flush=True)
        return 0
    if options.write:
        rows = (f"{arch} {n} {digest(arch, n)}\n" for arch, n in product(arches.names(), numbers))
        HASHES.write_text(HEAD + "".join(rows), encoding="utf-8")
        return 0
    return _compare(options.python or [sys.executable], options.seeds.split(), numbers)


def _compare(pythons: list[str], seeds: list[str], numbers: list[int]) -> int:
    """Run every combination; return 1 if a hash differs from the committed one."""
    known, wrong = committed(), 0
    root = Path(__file__).resolve().parents[2]
    for python, seed, clock in product(pythons, seeds, ("native", "fallback")):
        start = time.monotonic()
        path = os.pathsep.join((str(root), str(root / ".pkg")))
        said = subprocess.run(
            [python, "-m", "tests.determinism", "--print", clock, "--cpus", _words(numbers)],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": path},
            cwd=root,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        rows = [line.split() for line in said.splitlines()]
        bad = [(arch, n) for arch, n, value in rows if known.get((arch, int(n))) != value]
        wrong += len(bad)
        took = time.monotonic() - start
        what = f"{python}  PYTHONHASHSEED={seed}  {clock} clock"
        differ = "".join(f"  DIFFERS: {arch} with {n} CPUs" for arch, n in bad)
        print(f"{what}  {len(rows)} hashes  {took:.0f} s{differ}", flush=True)
    return 1 if wrong else 0


def _words(numbers: list[int]) -> str:
    return " ".join(map(str, numbers))


if __name__ == "__main__":
    sys.exit(main())
