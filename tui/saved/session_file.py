"""Files of saved console sessions.

A file holds the machine's options, the commands and runs of the session, and the layout of
the console. It holds no machine state: replaying the commands restores the same bytes. The
whole file is checked before any part of it is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from platformdirs import user_state_path

from ... import arches
from ...core.errors import DynftraceError, UsageError
from ...core.trace.select.rowkey import RowKey
from ..files.whole_file import write_whole
from ..present.view import ORDERS
from .machine_options import Described

if TYPE_CHECKING:
    from ...core.session.journal import Action

VERSION = 1
"""Version of the file format."""

SUFFIX = ".json"

MOST_NS = 10**12
"""Longest run of the machine, in virtual ns."""

MOST_TIMES = 10**7
"""Largest number of equal runs in a row."""

T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")


class SessionFileError(DynftraceError):
    """An unusable session file: its path and the reason."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")


@dataclass(frozen=True, slots=True)
class Layout:
    """How the console lay; `function` is the rec.ip under the cursor of the list."""

    pane: int = 1
    zoomed: bool = False
    theme: str | None = None
    filter: str = ""
    order: str = ORDERS[0]
    function: int | None = None
    trace_filter: str = ""
    marks: Mapping[str, RowKey] = field(default_factory=dict)
    """Markers A and B of the trace, by their letters."""
    bookmarks: tuple[RowKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Saved:
    """A saved session; `now` is the virtual time of saving in ns, or None if unknown."""

    machine: Described
    done: tuple[Action, ...] = ()
    now: int | None = None
    layout: Layout = Layout()

    @property
    def commands(self) -> int:
        """Number of commands in `done`, which also holds runs."""
        return sum(not isinstance(action, int) for action in self.done)


def folder() -> Path:
    """Return the folder of the session files."""
    return user_state_path("dynftrace") / "sessions"


def path_of(name: str) -> Path:
    """Return the file of the session `name`; raises `UsageError` for an invalid name."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"invalid session name {name!r}: use at most 64 letters, digits, '.', '_' and '-'"
        )
    return folder() / (name + SUFFIX)


def names() -> list[str]:
    """Return the names of all saved sessions, sorted."""
    try:
        found = [each.name.removesuffix(SUFFIX) for each in folder().glob(f"*{SUFFIX}")]
    except OSError:
        return []
    return sorted(name for name in found if _NAME.fullmatch(name))


def delete(name: str) -> None:
    """Delete the session `name`; raises `UsageError` if it does not exist."""
    path = path_of(name)
    try:
        path.unlink()
    except FileNotFoundError:
        raise UsageError(f"session {name!r} does not exist: dynftrace sessions lists all") from None
    except OSError as error:
        raise SessionFileError(path, error.strerror or str(error)) from error


def save(name: str, saved: Saved) -> None:
    """Write or replace the file of the session `name`; raises `DynftraceError`."""
    path = path_of(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SessionFileError(path, error.strerror or str(error)) from error
    write_whole(path, as_text(saved))


def load(name: str) -> Saved | None:
    """Return the session `name`, or None if it does not exist; raises `SessionFileError`."""
    path = path_of(name)
    try:
        text = path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SessionFileError(path, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise SessionFileError(path, "not UTF-8") from error
    try:
        return from_text(text)
    except _Wrong as error:
        raise SessionFileError(path, str(error)) from error


def as_text(saved: Saved) -> str:
    """Return the text of the file of a session."""
    machine = {name: getattr(saved.machine, name) for name in _MACHINE}
    done: list[object] = []
    for action, same in groupby(saved.done):
        if isinstance(action, int):
            # Keep the length of each run: where a run ends affects the result.
            done.append({"ns": action, "times": len(list(same))})
        else:
            done += map(str, same)
    table = {
        "version": VERSION,
        "machine": machine,
        "done": done,
        "now": saved.now,
        "layout": asdict(saved.layout),
    }
    return json.dumps(table, indent=1) + "\n"


def from_text(text: str) -> Saved:
    """Parse the output of `as_text`; raises `_Wrong` with one sentence."""
    try:
        table: object = json.loads(text)
    except json.JSONDecodeError as error:
        raise _Wrong(f"not JSON: {error}") from error
    except (ValueError, RecursionError) as error:
        raise _Wrong(f"unreadable JSON: {error}") from error
    version = table.get("version") if isinstance(table, dict) else None
    if type(version) is not int:
        raise _Wrong("not a dynftrace session")
    if version != VERSION:
        raise _Wrong(f"unsupported version {version}: this dynftrace reads version {VERSION}")
    top = _table(table, "the session", ("version", "machine", "done", "now", "layout"))
    return Saved(
        _machine(top["machine"]),
        tuple(_done(top["done"])),
        _or_none(top["now"], "now", _count),
        _layout(top["layout"]),
    )


class _Wrong(DynftraceError):
    """An error in a session file, without its path."""


_MACHINE = ("arch", "kernel", "modules", "cpus", "patch", "nop", "discovery")
_LAYOUT = tuple(each.name for each in fields(Layout))


def _table(value: object, where: str, names: Sequence[str]) -> dict[str, object]:
    """Return `value` if it is an object with exactly these `names`."""
    if not isinstance(value, dict):
        raise _Wrong(f"{where} must be an object")
    for name in value:
        if name not in names:
            raise _Wrong(f"{where} has an unknown entry {name!r}")
    for name in names:
        if name not in value:
            raise _Wrong(f"{where} lacks the entry {name!r}")
    return value


def _list(value: object, where: str) -> list[object]:
    if not isinstance(value, list):
        raise _Wrong(f"{where} must be a list")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise _Wrong(f"{where} must be a string without NUL")
    return value


def _count(value: object, where: str, least: int = 0, most: int = 2**64 - 1) -> int:
    if type(value) is not int or not least <= value <= most:
        raise _Wrong(f"{where} must be an integer from {least} to {most}")
    return value


def _or_none(value: object, where: str, kind: Callable[[object, str], T]) -> T | None:
    return None if value is None else kind(value, where)


def _one_of(value: object, where: str, known: Sequence[str]) -> str:
    text = _text(value, where)
    if text not in known:
        raise _Wrong(f"{where} is {text!r} (choose from: {', '.join(known)})")
    return text


def _machine(value: object) -> Described:
    table = _table(value, "machine", _MACHINE)
    arch = _text(table["arch"], "machine.arch")
    if not arches.known(arch):
        raise _Wrong(f"machine.arch is {arch!r}: unknown architecture")
    modules = [_text(each, "a module") for each in _list(table["modules"], "machine.modules")]
    patch, nop, discovery, kernel = (
        _or_none(table[name], f"machine.{name}", _text)
        for name in ("patch", "nop", "discovery", "kernel")
    )
    cpus = _count(table["cpus"], "machine.cpus", 1, 8)
    return Described(arch, kernel, tuple(modules), cpus, patch, nop, discovery)


def _done(value: object) -> list[Action]:
    # Imported here: the shell loads the emulator, and the console draws before that.
    from ...core.shell.parser import ShellSyntaxError, parse

    done: list[Action] = []
    for number, each in enumerate(_list(value, "done")):
        where = f"done[{number}]"
        if isinstance(each, dict):
            table = _table(each, where, ("ns", "times"))
            ns = _count(table["ns"], f"{where}.ns", 0, MOST_NS)
            done += [ns] * _count(table["times"], f"{where}.times", 1, MOST_TIMES)
            continue
        try:
            commands = parse(_text(each, where))
        except ShellSyntaxError as error:
            raise _Wrong(f"{where} is not a command: {error}") from error
        if len(commands) != 1:
            raise _Wrong(f"{where} must be exactly one command")
        done += map(str, commands)
    return done


def _layout(value: object) -> Layout:
    table = _table(value, "layout", _LAYOUT)
    zoomed = table["zoomed"]
    if not isinstance(zoomed, bool):
        raise _Wrong("layout.zoomed must be true or false")
    marks = table["marks"]
    if not isinstance(marks, dict) or not set(marks) <= {"A", "B"}:
        raise _Wrong("layout.marks may only have the entries A and B")
    bookmarks = _list(table["bookmarks"], "layout.bookmarks")
    return Layout(
        _count(table["pane"], "layout.pane", 1, 4),
        zoomed,
        _or_none(table["theme"], "layout.theme", _text),
        _text(table["filter"], "layout.filter"),
        _one_of(table["order"], "layout.order", ORDERS),
        _or_none(table["function"], "layout.function", _count),
        _text(table["trace_filter"], "layout.trace_filter"),
        {letter: _place(mark, f"layout.marks.{letter}") for letter, mark in marks.items()},
        tuple(_place(mark, "a bookmark") for mark in bookmarks),
    )


def _place(value: object, where: str) -> RowKey:
    parts = _list(value, where)
    if len(parts) != len(RowKey._fields):
        raise _Wrong(f"{where} must have {len(RowKey._fields)} entries")
    return RowKey(*(_count(part, where) for part in parts))
