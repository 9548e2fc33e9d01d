"""The kernel's selftests of ftrace, from Debian's package of the kernel's source.

    python -m tests.clients.selftests FOLDER

downloads the package by apt into FOLDER and unpacks the selftests there; nothing is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from .namespace import Machine

PACKAGE = "linux-source-6.1"

VARIABLE = "DYNFTRACE_SELFTESTS"
"""Environment variable: the folder with the selftests."""

INSIDE = "tools/testing/selftests/ftrace"

LEFT_OUT = {
    "ftrace/func_hotplug.tc": "takes a real CPU off line",
    "selftest/bashisms.tc": "is about the scripts themselves",
}
"""Cases that are not run, with the reason; by path below test.d."""

SECONDS, OF_A_FOLDER_S = 600, 180
"""Host seconds for all cases, and for those of one folder."""

UNTRIED = "UNTRIED"
"""The result of a case for which no time was left."""

_RESULT = re.compile(
    r"^\[(?P<number>\d+)\](?P<instance> \(instance\))?\s+(?P<name>.*?)\t\[(?P<result>\w+)\]"
)


@dataclass(frozen=True)
class Result:
    """The result of one case: PASS, FAIL, UNSUPPORTED, …; `why` is a clause."""

    name: str
    result: str
    why: str = ""

    @property
    def passed(self) -> bool:
        """Whether the case passed. One that tries what must fail ends with XFAIL if it does."""
        return self.result in {"PASS", "XFAIL"}


def folder() -> Path | None:
    """Return the folder with ftracetest, or None."""
    given = os.environ.get(VARIABLE)
    found = Path(given) / INSIDE if given else None
    return found if found is not None and (found / "ftracetest").exists() else None


def cases(top: Path, glob: str = "*") -> list[Path]:
    """Return the cases to run whose paths below test.d match `glob`."""
    found = sorted((top / "test.d").rglob("*.tc"))
    names = {case: str(case.relative_to(top / "test.d")) for case in found}
    return [case for case in found if names[case] not in LEFT_OUT and fnmatch(names[case], glob)]


def run(machine: Machine, top: Path, glob: str = "*") -> Iterator[Result]:
    """Run the cases, one folder after the other, and yield their results.

    A case that does not end fails, and the cases after it are run, while time is left.
    """
    end = time.monotonic() + SECONDS * machine.patience
    for place in sorted({case.parent for case in cases(top, glob)}):
        left = [case for case in cases(top, glob) if case.parent == place]
        while left:
            seconds = min(OF_A_FOLDER_S, (end - time.monotonic()) / machine.patience)
            if seconds <= 0:
                yield from (Result(_short(case, top), UNTRIED, "no time was left") for case in left)
                break
            logs = machine.folder / f"logs.{place.name}.{len(left)}"
            words = ["./ftracetest", "-k", "--logdir", str(logs), *map(str, left)]
            status, said = machine.run(words, seconds=seconds, cwd=top, tracefs=False)
            results = [*_results(said, logs, top)]
            yield from results
            done = sum(not result.name.endswith(IN_INSTANCE) for result in results)
            if status != 124 or done >= len(left):
                break
            yield Result(_short(left[done], top), "FAIL", "does not end")
            machine.reset()
            left = left[done + 1 :]


IN_INSTANCE = " (in an instance)"


def _short(case: Path, top: Path) -> str:
    return str(case.relative_to(top / "test.d"))


def _results(said: str, logs: Path, top: Path) -> Iterator[Result]:
    for line in said.splitlines():
        found = _RESULT.match(re.sub(r"\x1b\[[0-9;]*m", "", line))
        if found is None:
            continue
        name = found["name"] + (IN_INSTANCE if found["instance"] else "")
        kept = sorted(logs.glob(f"{found['number']}-*"))
        log = kept[0].read_text(errors="replace") if kept else ""
        yield Result(
            name,
            found["result"],
            "" if found["result"] == "PASS" else _why(log.replace(f"{top}/", "")),
        )


def _why(log: str) -> str:
    """Return the reason that the log of a case ends with: what it says, or its last command."""
    lines = [line for line in log.splitlines() if line.strip()]
    said = [line for line in lines[-12:] if not line.startswith("+")]
    why = said[-1] if said else lines[-1].lstrip("+ ") if lines else ""
    return re.sub(r"/\S*/ftracetest: |^ftracetest: ", "", why)[:100].replace("|", "\\|").strip()


def download(into: Path) -> None:
    """Download the package and unpack the selftests. Raises `subprocess.CalledProcessError`."""
    into.mkdir(parents=True, exist_ok=True)
    if not sorted(into.glob(f"{PACKAGE}_*.deb")):
        subprocess.run(["apt-get", "-q", "download", PACKAGE], cwd=into, check=True)
    package = sorted(into.glob(f"{PACKAGE}_*.deb"))[-1]
    tar = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], check=True, capture_output=True)
    inner = subprocess.run(
        ["tar", "-xO", "--wildcards", f"./usr/src/{PACKAGE}.tar.*"],
        input=tar.stdout,
        check=True,
        capture_output=True,
    )
    subprocess.run(
        ["tar", "-xJ", "--strip-components=1", "--wildcards", f"*/{INSIDE}/*"],
        input=inner.stdout,
        cwd=into,
        check=True,
    )


if __name__ == "__main__":
    if shutil.which("dpkg-deb") is None:
        sys.exit("dpkg-deb is not installed")
    download(Path(sys.argv[1]))
