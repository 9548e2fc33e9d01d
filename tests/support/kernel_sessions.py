"""Sessions with a distribution's kernel in the pages, replayed.

    DYNFTRACE_KERNELS=FOLDER python -m tests.support.kernel_sessions PAGE…

Each command of such a block is run again, and its output written into the page. Blocks of
kernels without a package in FOLDER stay as they are.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dynftrace import arches
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

from .debian import unpacked

PORTS = {"amd64": "x86_64", "arm64": "arm64"}

_BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OPENS = re.compile(r"\$ dynftrace sh --kernel boot/vmlinuz-([\w.-]+-(\w+))\n")


@dataclass(frozen=True)
class Block:
    """Commands with their output, at a place in a page."""

    start: int
    end: int
    head: str
    """The line that opens the kernel; empty if the block continues the one before it."""
    steps: list[tuple[str, str]]


@dataclass(frozen=True)
class Shown:
    """A session in a page: blocks of commands for one kernel."""

    release: str
    arch: str
    blocks: list[Block] = field(default_factory=list)

    @property
    def steps(self) -> list[tuple[str, str]]:
        """All commands, with their output."""
        return [step for block in self.blocks for step in block.steps]


def sessions(text: str) -> list[Shown]:
    """Return the sessions in the page `text`."""
    found: list[Shown] = []
    for match in _BLOCK.finditer(text):
        opens = _OPENS.match(match[1])
        if opens is not None:
            found.append(Shown(opens[1], opens[2]))
        elif not (found and match[1].startswith("> ")):
            continue
        head = opens[0] if opens else ""
        steps = [
            (command, output)
            for each in re.split(r"^> ", match[1][len(head) :], flags=re.MULTILINE)[1:]
            for command, _, output in [each.partition("\n")]
        ]
        found[-1].blocks.append(Block(match.start(1), match.end(1), head, steps))
    return found


def replay(shown: Shown) -> tuple[str, Iterator[tuple[str, str]]]:
    """Return the release of the kernel in the package, and the commands with their output now.

    The commands are for that release. Skips the test without a package.
    """
    top = unpacked(shown.arch)
    (kernel,) = top.glob("boot/vmlinuz-*")
    release = kernel.name.removeprefix("vmlinuz-")

    def steps() -> Iterator[tuple[str, str]]:
        with contextlib.chdir(top):
            spec = MachineSpec(kernel=kernel.relative_to(top))
            shell = Shell(Session.open(arches.load(PORTS[shown.arch]), spec))
            for command, _ in shown.steps:
                command = command.replace(shown.release, release)
                done = shell.execute(command)
                yield command, (done.output + done.error).rstrip("\n")

    return release, steps()


def refreshed(text: str) -> str:
    """Return the page `text` with the output of now."""
    for shown in reversed(sessions(text)):
        try:
            release, steps = replay(shown)
            found = [f"> {command}\n{output}\n" for command, output in steps]
        except pytest.skip.Exception as missing:
            print(missing)
            continue
        for block in reversed(shown.blocks):
            rows = [found.pop() for _ in block.steps][::-1]
            body = block.head.replace(shown.release, release) + "".join(rows)
            # A command without output is followed by the next one.
            text = text[: block.start] + body.replace("\n\n> ", "\n> ") + text[block.end :]
    return text


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:]):
        page.write_text(refreshed(page.read_text(encoding="utf-8")), encoding="utf-8")
