"""Runs the clients against mounted machines, and writes the table of a page.

    python -m tests.clients [--only CLIENT] [--case GLOB] [--write PAGE] [--check PAGE]
                            [--patience FACTOR]

`CLIENT` is trace-cmd, perf, libtracefs or selftests; `GLOB` matches names of cases, or paths of
selftests below test.d. What is not installed is skipped, with a reason. `--patience` multiplies
the time that clients have, for a slow or busy system. `--write` writes no page, and fails, if a
client was skipped or a case had no time. `--check` fails if less than three quarters of the cases
pass that pass on the page; cases without time do not count if at least a third of the page's cases
pass. Needs root; see namespace.py.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from ctypes.util import find_library
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from . import selftests
from .cases import LIBTRACEFS, PERF, TRACE_CMD, Case
from .namespace import TRACING, Machine, NotPossibleError, enter, machine
from .selftests import UNTRIED, Result

BEGIN, END = "<!-- clients -->", "<!-- end of clients -->"

ARCHES = ("x86_64", "arm64")
"""Machines that trace-cmd is tried on: the host's architecture, and another."""


@dataclass
class Tried:
    """The results of one client on one machine."""

    client: str
    version: str
    arch: str
    results: list[Result] = field(default_factory=list)
    skipped: str = ""

    @property
    def passed(self) -> int:
        """Number of cases that passed."""
        return sum(result.passed for result in self.results)

    @property
    def untried(self) -> int:
        """Number of cases for which no time was left."""
        return sum(result.result == UNTRIED for result in self.results)

    def row(self) -> str:
        """Return the row of the table."""
        counts = Counter(result.result.lower() for result in self.results if not result.passed)
        others = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
        cells = (
            *(self.client, self.version, self.arch, str(len(self.results)), str(self.passed)),
            self.skipped or others,
        )
        return f"| {' | '.join(cells)} |"


def version(*command: str) -> str:
    """Return the first version number that a program prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"\d+(\.\d+)*", done.stdout + done.stderr)
    return found[0] if found else "unknown"


def shown(command: str) -> str:
    """Return a command as the page shows it."""
    return command.replace("{dat}", "FILE").replace("{", "").replace("}", "")


def tried(machine: Machine, cases: Iterable[Case], reset: bool = True) -> Iterable[Result]:
    """Run each of `cases` on a machine, with everything off if `reset`; yield their results."""
    programs = {
        "{dynftrace}": [sys.executable, "-m", "dynftrace"],
        "{libtracefs}": [sys.executable, str(Path(__file__).with_name("libtracefs.py"))],
    }
    for case in cases:
        missing = [name for name in case.needs if not (TRACING / name).exists()]
        if missing:
            yield Result(case.name, "UNSUPPORTED", f"no file {missing[0]}")
            continue
        if reset:
            machine.reset()
        dat = machine.folder / "case.dat"
        for old in machine.folder.glob("case.dat*"):
            old.unlink()
        said, why = "", ""
        for command in case.commands:
            words = [
                part
                for word in command.split()
                for part in programs.get(word, [word.replace("{dat}", str(dat))])
            ]
            status, said = machine.run(words)
            if status:
                last = [line.strip() for line in said.splitlines() if line.strip()]
                end = "does not end" if status == 124 else f"status {status}"
                why = f"`{shown(command)}`: {end}"
                why += f" ({last[-1][:80]})" if last else ""
                break
        if not why and not case.sees(said):
            why = f"`{shown(case.commands[-1])}` lacks its result"
        yield Result(case.name, "FAIL" if why else "PASS", why.replace("|", "\\|"))


def run_all(only: str | None, glob: str = "*") -> list[Tried]:
    """Run every client that is installed, or the cases that match. Raises `NotPossibleError`."""
    found: list[Tried] = []
    programs = (
        *(("trace-cmd", TRACE_CMD, ARCHES), ("perf", PERF, ARCHES[:1])),
        ("libtracefs", LIBTRACEFS, ARCHES[:1]),
    )
    for program, cases, arches in programs:
        if only not in (None, program):
            continue
        installed = shutil.which(program) or find_library(program.removeprefix("lib"))
        if not installed:
            found.append(Tried(program, "", "", skipped=f"skipped: {program} is not installed"))
            continue
        for arch in arches:
            command = (program, "--version") if shutil.which(program) else ("echo", installed)
            each = Tried(program, version(*command), arch)
            # What an architecture changes is what is recorded.
            own = [case for case in cases if arch == ARCHES[0] or case.name.startswith("record")]
            own = [case for case in own if fnmatch(case.name, glob)]
            with machine(arch) as mounted:
                each.results += tried(mounted, own)
            found.append(each)
    if only in (None, "selftests"):
        top = selftests.folder()
        each = Tried("kernel selftests", "6.1", ARCHES[0])
        if top is None:
            each.skipped = f"skipped: {selftests.VARIABLE} names no folder with them"
        else:
            with machine(ARCHES[0]) as mounted:
                each.results += selftests.run(mounted, top, glob)
        found.append(each)
    return found


def page(found: Sequence[Tried]) -> list[str]:
    """Return the part of the page that is made of results."""
    lines = [BEGIN, "", "| client | version | machine | cases | passed | why not |"]
    lines += ["|---|---|---|---|---|---|", *(each.row() for each in found), ""]
    for each in found:
        rest = [result for result in each.results if not result.passed]
        if not rest:
            continue
        lines += [f"### {each.client} on {each.arch}: what does not pass", ""]
        lines += ["| case | result | reason |", "|---|---|---|"]
        lines += [f"| {each.name} | {each.result.lower()} | {each.why} |" for each in rest]
        lines.append("")
    return [*lines, END]


def main() -> int:
    """Run the clients; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.clients")
    parser.add_argument("--only", choices=("trace-cmd", "perf", "libtracefs", "selftests"))
    parser.add_argument("--case", default="*", metavar="GLOB")
    parser.add_argument("--write", type=Path, metavar="PAGE")
    parser.add_argument("--check", type=Path, metavar="PAGE")
    parser.add_argument("--patience", type=float, default=1.0, metavar="FACTOR")
    options = parser.parse_args()
    if options.write is not None and (options.only, options.case) != (None, "*"):
        parser.error("--write needs all clients and cases: leave --only and --case out")
    Machine.patience = options.patience
    began = time.monotonic()
    try:
        enter()
        found = run_all(options.only, options.case)
    except NotPossibleError as error:
        print(f"skipped: {error}")
        return 0 if options.write is None else 1
    for each in found:
        print(each.row())
        for result in each.results:
            if not result.passed:
                print(f"  {result.result}: {result.name}: {result.why}")
    print(f"{time.monotonic() - began:.0f} s")
    if options.write is not None:
        if lack := lacking(found):
            print(f"{options.write} stays as it is: {lack}")
            return 1
        text = options.write.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        after = rest.split(END)[1]
        whole = before + "\n".join(page(found)) + after
        options.write.write_text(whole, encoding="utf-8")
    if options.check is not None:
        return worse(options.check.read_text(encoding="utf-8"), found)
    return 0


def lacking(found: Sequence[Tried]) -> str:
    """Return what a page of these results would lack; nothing if it would be whole."""
    skipped = [f"{each.client}: {each.skipped}" for each in found if each.skipped]
    untried = sum(each.untried for each in found)
    if untried:
        skipped.append(f"cases without time: {untried}; use --patience 2")
    return "; ".join(skipped)


def worse(text: str, found: Sequence[Tried]) -> int:
    """Return 1 if far fewer cases of a client pass than the table of the page says.

    A quarter less is allowed: cases that wait for real time fail on a busy system. On a slow one
    some have no time; but if most have none, something hangs.
    """
    status = 0
    for each in found:
        row = re.search(
            rf"^\| {re.escape(each.client)} \| \S* \| {each.arch} \| \d+ \| (\d+) \|", text, re.M
        )
        if row is None or not each.results:
            continue
        least = max(int(row[1]) * 3 // 4 - each.untried, int(row[1]) // 3)
        if each.passed < least:
            print(f"{each.client} on {each.arch}: {each.passed} cases pass, the page has {row[1]}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
