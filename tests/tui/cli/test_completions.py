"""Completion in real shells: type, press TAB, and check the result.

The shells find the completions where the wheel installs them. They ask the real program
for candidates; run as a command, it prints its arguments instead.
"""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dynftrace import arches
from dynftrace.tui import cli
from dynftrace.tui.manual import manpage
from dynftrace.tui.pictures.picture import POSES
from dynftrace.tui.tours import course

ROOT = Path(cli.__file__).resolve().parents[2]
SHARE = ROOT / "tui" / "manual" / "share"
PROMPT = "ready> "
SHELLS = {
    "bash": (
        ["bash", "--rcfile", "{home}/rc", "-i"],
        f"source {SHARE / manpage.COMPLETIONS['bash']}",
    ),
    "zsh": (
        ["zsh", "-i"],
        f"fpath=({(SHARE / manpage.COMPLETIONS['zsh']).parent} $fpath)\n"
        "autoload -Uz compinit\ncompinit -u -D\nunsetopt beep list_beep",
    ),
}
"""How each shell is started, and its startup file."""

needs = {
    name: pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed")
    for name in manpage.COMPLETIONS
}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Make a home directory, and a program in the path."""
    program = tmp_path / "bin" / "dynftrace"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        f'[ -n "$_DYNFTRACE_COMPLETE" ] && exec {sys.executable} -m dynftrace "$@"\n'
        'echo "ran" "[$*]"\n'
    )
    program.chmod(0o755)
    return os.environ | {
        "HOME": str(tmp_path),
        "ZDOTDIR": str(tmp_path),
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / ".pkg"),
        "TERM": "xterm",
        "XDG_DATA_DIRS": f"{SHARE}:/usr/share",
    }


class Terminal:
    """A shell at a terminal."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._seen = ""

    def type(self, text: str) -> None:
        """Press keys; wait for output after each TAB, because zsh drops one that is too early."""
        for part in re.findall(r"\t|[^\t]+", text):
            if part == "\t":
                self._quiet()
            os.write(self._file, part.encode())
            if part == "\t":
                assert self._read(20), "the shell did not answer TAB"
                self._quiet()

    def _read(self, patience: float) -> bool:
        """Return whether more output came within `seconds`."""
        if not select.select([self._file], [], [], patience)[0]:
            return False
        self._seen += os.read(self._file, 65536).decode()
        return True

    def _quiet(self) -> None:
        while self._read(0.3):
            pass

    def until(self, text: str) -> str:
        """Return the output up to `text`, which must come."""
        end = time.monotonic() + 20
        while text not in self._seen:
            assert time.monotonic() < end, self._seen
            self._read(0.1)
        shown, _, self._seen = self._seen.partition(text)
        return shown


@contextmanager
def terminal(shell: str, environment: dict[str, str]) -> Iterator[Terminal]:
    """Yield `shell` at its prompt."""
    home = Path(environment["HOME"])
    arguments, setup = SHELLS[shell]
    for name in ("rc", ".zshrc"):
        (home / name).write_text(f"{setup}\nPS1='{PROMPT}'\n")
    child, file = pty.fork()
    if child == 0:
        os.execvpe(shell, [each.format(home=home) for each in arguments], environment)
    try:
        shown = Terminal(file)
        shown.until(PROMPT)
        yield shown
    finally:
        os.close(file)  # hangs up
        os.waitpid(child, 0)


@pytest.mark.parametrize("shell", [pytest.param(name, marks=needs[name]) for name in SHELLS])
def test_tab_completes_in_each_shell(shell: str, environment: dict[str, str]) -> None:
    with terminal(shell, environment) as at:
        for typed, ran in (
            ("--ar\tarm64-m\t", "--arch arm64-mcount"),
            ("to\tcall-s\t", "tour call-site"),
            ("screenshot --scr\ttrampol\t", "screenshot --screen trampoline"),
            ("sh --patch br\t", "sh --patch breakpoint"),
            (f"sh --kernel {ROOT}/pypro\t", f"sh --kernel {ROOT}/pyproject.toml"),
        ):
            at.type(f"dynftrace {typed}\n")
            assert at.until("]").rpartition("ran [")[2].strip() == ran
            at.until(PROMPT)
        for typed, offered in (
            ("--arch ", arches.built_in()),
            ("tour ", course.names()),
            ("screenshot --screen ", tuple(POSES)),
        ):
            at.type(f"dynftrace {typed}\t" + ("\t" if shell == "bash" else "") + "\x03")
            # bash shows a prompt below its list, and another one after the ^C.
            shown = at.until("^C") if shell == "bash" else ""
            shown += at.until(PROMPT)
            words = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", " ", shown).split()
            assert set(offered) <= set(words), shown


@needs["fish"]
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("--them", ["--theme\tColours of the console, such as dynftrace-light."]),
        ("--arch ppc", ["ppc32", "ppc64"]),
        ("tour ", sorted(course.names())),
        ("screenshot --screen ", sorted(POSES)),
        ("compa", ["compare\tCompare one function on every architecture."]),
        # Descriptions may contain a comma.
        ("arc", ["arches\tShow all architectures side by side."]),
        ("sh --kernel pypro", ["pyproject.toml"]),
    ],
)
def test_fish_shows_candidates_with_descriptions(
    typed: str, offered: list[str], environment: dict[str, str]
) -> None:
    done = subprocess.run(
        ["fish", "-c", f"complete -C 'dynftrace {typed}'"],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        cwd=ROOT,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == offered


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_man_shows_the_page_without_a_warning() -> None:
    done = subprocess.run(
        ["man", "--warnings", "-l", str(SHARE / manpage.PAGE)],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"MANWIDTH": "80", "LC_ALL": "C.UTF-8", "MANPAGER": "cat"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "dynftrace - watch Linux dynamic ftrace patch a running kernel" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
