"""Run all benchmarks, or those named, and print one table.

`--write` also puts the table into docs/performance.md, with a description of the machine. The
exit status is 0 if every target is met.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from .measure import Row

BENCHMARKS = (
    *("guest", "arm64", "ftraced", "graph", "tracers", "host", "sites", "image", "events"),
    *("travel", "console"),
)
HEADS = ("what", "measured", "ratio", "of", "target", "met")
LAYOUT = "{:<58} {:>16} {:>9}  {:<42} {:<18} {}"

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- make bench begins -->", "<!-- make bench ends -->"


def rows(names: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of each named benchmark as they are measured."""
    for name in names:
        run: Callable[[], Iterator[Row]] = import_module(f"{__package__}.{name}").rows
        yield from run()


def machine() -> str:
    """Return a sentence about this computer, and the versions of what is measured."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        named = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = named[0].partition(":")[2].strip() if named else model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    used = ", ".join(f"{name} {version(name)}" for name in ("unicorn", "numpy", "textual"))
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return (
        f"Commit {commit or 'unknown'}, on {model}, {os.cpu_count()} cores, {memory:.0f} GB, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}, {used}."
    )


def markdown(table: Sequence[Row]) -> str:
    """Return the machine and the table."""
    lines = [machine(), "", "| " + " | ".join(HEADS) + " |", "|" + "---|" * len(HEADS)]
    lines += ["| " + " | ".join(row.cells()) + " |" for row in table]
    return "\n".join(lines)


def write(table: Sequence[Row]) -> None:
    """Replace the table in the document."""
    head, _, rest = DOCUMENT.read_text().partition(BEGIN)
    tail = rest.partition(END)[2]
    DOCUMENT.write_text(f"{head}{BEGIN}\n\n{markdown(table)}\n\n{END}{tail}")


def main() -> int:
    """Print the table; return 0 if every target is met."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--write", action="store_true", help=f"update {DOCUMENT.name}")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r} (choose from: {', '.join(BENCHMARKS)})")
    # Modules that were compiled before are measured, as users have them.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    print(LAYOUT.format(*HEADS))
    table = []
    for row in rows(arguments.names or BENCHMARKS):
        table.append(row)
        print(LAYOUT.format(*row.cells()), flush=True)
    if arguments.write:
        write(table)
    return 0 if all(row.met for row in table) else 1


if __name__ == "__main__":
    sys.exit(main())
