"""`dynftrace doctor`: a report on this installation and this host, for bug reports."""

from __future__ import annotations

import json as json_format
import locale
import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

from ... import __version__
from ...core.errors import DynftraceError
from ..files.terminal import can_move_cursor
from .exit_status import FAILED

LIBRARIES = (
    *("unicorn", "capstone", "keystone-engine", "textual", "rich", "numpy", "click"),
    *("aiohttp", "textual-serve", "mfusepy"),
)
"""Distributions whose versions matter; the last ones come with dynftrace[serve,mount]."""

PROBE = "─▶✓…"
"""Characters of the console, each one cell wide in a suitable font and terminal."""

PATIENCE_S = 0.5
"""Time limit for the terminal's answer, in host seconds."""

Answers = dict[str, str]


@click.command(name="doctor", short_help="Say what is installed and what works here.")
@click.option("--json", "json", is_flag=True, help="Print a JSON object.")
@click.pass_context
def doctor_command(context: click.Context, json: bool) -> None:
    """Say what is installed and what works here; paste it into a bug report.

    It boots a machine and asks the terminal for its colours and character widths. The
    exit status is 1 if the machine does not work, else 0.
    """
    parts: Mapping[str, Callable[[], Answers]] = {
        "dynftrace": _installed,
        "libraries": _libraries,
        "machine": _machine,
        "terminal": _terminal,
        "files": _files,
    }
    found = {name: answers() for name, answers in parts.items()}
    if json:
        print(json_format.dumps(found, indent=1, ensure_ascii=False))
    else:
        print("\n".join(_report(found)))
    context.exit(FAILED if "failed" in found["machine"] else 0)


def _report(found: Mapping[str, Answers]) -> Iterator[str]:
    """Yield the lines of the report."""
    width = max(len(name) for answers in found.values() for name in answers)
    for part, answers in found.items():
        yield part
        for name, answer in answers.items():
            yield f"  {name:<{width}}  {answer}"


def _installed() -> Answers:
    return {
        "version": __version__,
        "installed in": _brief(Path(__file__).parents[2]),
        "Python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "C library": " ".join(platform.libc_ver()).strip() or "unknown",
    }


def _libraries() -> Answers:
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found


def _machine() -> Answers:
    """Boot a machine and trace a workload in it."""
    begin = time.monotonic()
    try:
        from ... import arches
        from ...core.machine.native import native_hook
        from ...core.session.session import Session
        from ...core.shell.shell import Shell

        shell = Shell(Session.open(arches.load(arches.DEFAULT)))
        outcome = shell.execute("echo function > current_tracer; run syscalls; cat trace | wc -l")
        failed = outcome.error.strip()
        assembled = shell.execute("poke schedule+5 nop")
        native = native_hook("block") is not None
    except (DynftraceError, ImportError, OSError) as error:
        return {"failed": str(error)}
    if failed:
        return {"failed": failed}
    return {
        "boots and traces": f"yes, in {time.monotonic() - begin:.1f} s",
        "native clock": "yes" if native else "no: the clock is Python, which is slower",
        "assembler": assembled.error.strip() or "yes (Keystone)",
        "CPUs of the host": str(os.cpu_count()),
    }


def _terminal() -> Answers:
    names = ("TERM", "COLORTERM", "TERM_PROGRAM", "NO_COLOR", "TMUX")
    variables = {name: os.environ[name] for name in names if os.environ.get(name)}
    tty = sys.stdin.isatty() and sys.stdout.isatty()
    size = shutil.get_terminal_size()
    return {
        "is a terminal": "yes" if tty else "no",
        **variables,
        "size": f"{size.columns}x{size.lines}" if tty else "unknown",
        "encoding": f"{sys.stdout.encoding} ({locale.getlocale()[1] or 'C locale'})",
        "colours": _colours() if tty else "unknown",
        "width of characters": _width() if tty and can_move_cursor(sys.stdout) else "unknown",
    }


def _colours() -> str:
    from rich.console import Console

    names = {None: "none", "standard": "16", "256": "256", "truecolor": "16 million"}
    return names.get(Console().color_system, "unknown")


def _width() -> str:
    """Return whether the terminal draws the console's characters one cell wide."""
    column = _column_after(PROBE)
    if column is None:
        return "unknown: the terminal does not answer"
    cells = column - 1
    return "right" if cells == len(PROBE) else f"wrong: {PROBE} takes {cells} cells"


def _column_after(text: str) -> int | None:
    """Write `text` at the start of a line and return the column after it; then remove it."""
    import select
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    answer = b""
    try:
        tty.setcbreak(descriptor)
        sys.stdout.write(f"\r{text}\x1b[6n")
        sys.stdout.flush()
        deadline = time.monotonic() + PATIENCE_S
        while not answer.endswith(b"R"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                break
            answer += os.read(descriptor, 32)
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)
        sys.stdout.write("\r\x1b[K")
        sys.stdout.flush()
    match = re.search(rb"\x1b\[\d+;(\d+)R", answer)
    return None if match is None else int(match[1])


def _files() -> Answers:
    from platformdirs import user_state_path

    from ..saved import settings

    path = settings.config_path()
    fuse = os.access("/dev/fuse", os.R_OK | os.W_OK)
    mount = shutil.which("fusermount3") or shutil.which("fusermount")
    return {
        "settings": f"{_brief(path)}{'' if path.exists() else ' (absent)'}",
        "state": _brief(Path(user_state_path("dynftrace"))),
        "FUSE": "yes" if fuse and mount else "no /dev/fuse" if not fuse else "no fusermount",
    }


def _brief(path: Path) -> str:
    """Return `path` without the name of the user's home."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
