"""The command `port` of the lessons' shell: begin a toy port in a file, and check it.

The file is Python that the student writes in the current folder. Only `port check FILE` executes
it, in a process of its own that is stopped after `LIMIT_S`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from ...core.errors import DynftraceError
from ...core.shell.command import Arguments, Command, Context, UsageMistake, expect
from ..files.whole_file import write_whole

LIMIT_S = 180
"""Host seconds that the checks of a file may take."""

VISITOR = "TEXTUAL_DRIVER"
"""Set in the environment of a console in a browser: its visitor owns no files here."""

SKELETON = '''\
"""A toy port: arm64-mcount, except for make_nop, which is yours to write.

`port check {name}` executes this file and runs the checks of the porting guide.
"""

from dataclasses import dataclass, replace

import numpy as np

from dynftrace.arches.arm64.mcount.port import FACTS, McountPort
from dynftrace.core.arch import Edit, Sites


@dataclass(frozen=True, slots=True)
class ToyPort(McountPort):
    facts = replace(FACTS, name="toy")

    def make_nop(self, sites: Sites, target: int) -> Edit:
        """Return the edit from a call of `target` to a nop, for all sites at once."""
        # An edit that leaves the calls as they are: `expected` and `replacement` are equal.
        edit = self.modify_call(sites, target, target)
        # One row of four bytes for each site.
        nops = np.zeros_like(edit.replacement)
        # Write the bytes of a nop into every row. In the manual a nop is the word d503201f.
{body}
        return replace(edit, replacement=nops)


def port() -> ToyPort:
    return ToyPort()
'''
"""The initial file; `body` is the student's text."""

TO_DO = "        nops[:] = [0x00, 0x00, 0x00, 0x00]"
SOLVED = "        nops[:] = [0x1F, 0x20, 0x03, 0xD5]  # the lowest byte first"


class PortCommand:
    """`port new`, `port check` and `port result`, and the result of the last check."""

    def __init__(self) -> None:
        self._result = "no port was checked yet"

    def command(self) -> Command:
        """Return the command for a shell."""
        return Command(
            "port",
            "new FILE | check FILE | result",
            "write a toy port to a file, or check it",
            self._run,
            details="new: write a Python file to complete; new --solved: with the solution.\n"
            "check: execute the file in a process of its own and run the porting guide's checks.\n"
            "result: the result of the last check.",
        )

    def _run(self, context: Context, arguments: Arguments) -> None:
        words = [word.text for word in arguments]
        verb, rest = (words or [""])[0], words[1:]
        if verb == "result":
            expect(arguments, 1, 1)
            context.line(self._result)
            return
        if verb not in ("new", "check"):
            raise UsageMistake(f"unknown action '{verb}' (choose from: new, check, result)")
        if VISITOR in os.environ:
            raise DynftraceError(
                "a console in a browser has no access to your files: use a terminal"
            )
        solved = verb == "new" and rest[:1] == ["--solved"]
        expect(arguments, 2 + solved, 2 + solved)
        path = Path(rest[-1])
        if verb == "new":
            _write(path, SOLVED if solved else TO_DO)
            context.line(f"wrote {path}")
        else:
            self._check(context, path)

    def _check(self, context: Context, path: Path) -> None:
        """Check the port in `path`; write the failures and the counts. Raises `DynftraceError`."""
        self._result = f"{path}: not checked"
        rows = _checked(path)
        failed = [row for row in rows if row["outcome"] == "failed"]
        for row in failed:
            context.line(f"failed  {row['check']}: {row['title']}")
            at = f"at {row['ip']}: " if row["ip"] else ""
            context.line(f"        {at}{row['reason']}")
            if row["expected"] or row["found"]:
                context.line(f"        expected {row['expected']}, found {row['found']}")
        passed = sum(row["outcome"] == "passed" for row in rows)
        self._result = f"{path}: {passed} passed, {len(failed)} failed"
        context.line(self._result)
        context.status = int(bool(failed))


def _write(path: Path, body: str) -> None:
    """Write a toy port to `path`. Raises `DynftraceError` if another file is there."""
    text = SKELETON.format(name=path.name, body=body)
    if path.exists() and path.read_bytes() != text.encode():
        raise DynftraceError(f"{path} already exists: choose another name")
    write_whole(path, text)


def _checked(path: Path) -> list[dict[str, str]]:
    """Run the checks of the port in `path`, and return them. Raises `DynftraceError`."""
    # -P: a file in the current folder must not replace a module that the checks import.
    program = [sys.executable, "-P", "-m", "dynftrace", "port", "check", "--json", str(path)]
    places = [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
    try:
        done = subprocess.run(
            program,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        raise DynftraceError(f"{path}: the checks did not end within {LIMIT_S} s") from error
    try:
        rows = json.loads(done.stdout)
    except ValueError as error:
        reason = done.stderr.strip().rpartition("\n")[2] or "the file ended the checks"
        raise DynftraceError(reason.removeprefix("dynftrace: ")) from error
    assert isinstance(rows, list)
    return rows
