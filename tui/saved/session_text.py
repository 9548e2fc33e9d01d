"""The text of a session file: JSON, checked completely before any part of it is used.

The text holds the machine's options, the commands and runs of the session, and the layout of
the console. It does not hold the machine state: replaying the commands restores the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from ... import arches
from ...core.errors import DynftraceError
from ...core.trace.select.rowkey import RowKey
from ..present.view import ORDERS
from .machine_options import MachineOptions
from .session_model import Layout, Saved

if TYPE_CHECKING:
    from ...core.session.journal import Action

VERSION = 1
"""Version of the file format."""

MOST_NS = 10**12
"""Longest run of the machine, in virtual ns."""

MOST_ACTIONS = 10**7
"""Largest number of commands and runs."""

T = TypeVar("T")

_MACHINE = ("arch", "kernel", "modules", "cpus", "patch", "nop", "discovery")
_LAYOUT = tuple(each.name for each in fields(Layout))


class SessionTextError(DynftraceError):
    """An error in the text of a session; the message is one sentence without a path."""


def as_text(saved: Saved) -> str:
    """Return the text that `from_text` parses."""
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
    """Parse the output of `as_text`. Raises `SessionTextError`."""
    try:
        table: object = json.loads(text)
    except json.JSONDecodeError as error:
        raise SessionTextError(f"not JSON: {error}") from error
    except (ValueError, RecursionError) as error:
        raise SessionTextError(f"unreadable JSON: {error}") from error
    version = table.get("version") if isinstance(table, dict) else None
    if type(version) is not int:
        raise SessionTextError("not a dynftrace session")
    if version != VERSION:
        raise SessionTextError(
            f"unsupported version {version}: this dynftrace reads version {VERSION}"
        )
    top = _table(table, "the session", ("version", "machine", "done", "now", "layout"))
    return Saved(
        _machine(top["machine"]),
        tuple(_done(top["done"])),
        _or_none(top["now"], "now", _count),
        _layout(top["layout"]),
    )


def _table(value: object, where: str, names: Sequence[str]) -> dict[str, object]:
    """Return `value` if it is an object with exactly the entries `names`."""
    if not isinstance(value, dict):
        raise SessionTextError(f"{where} must be an object")
    for name in value:
        if name not in names:
            raise SessionTextError(f"{where} has an unknown entry {name!r}")
    for name in names:
        if name not in value:
            raise SessionTextError(f"{where} lacks the entry {name!r}")
    return value


def _list(value: object, where: str) -> list[object]:
    if not isinstance(value, list):
        raise SessionTextError(f"{where} must be a list")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise SessionTextError(f"{where} must be a string without NUL")
    return value


def _count(value: object, where: str, least: int = 0, most: int = 2**64 - 1) -> int:
    if type(value) is not int or not least <= value <= most:
        raise SessionTextError(f"{where} must be an integer from {least} to {most}")
    return value


def _or_none(value: object, where: str, kind: Callable[[object, str], T]) -> T | None:
    return None if value is None else kind(value, where)


def _one_of(value: object, where: str, known: Sequence[str]) -> str:
    text = _text(value, where)
    if text not in known:
        raise SessionTextError(f"{where} is {text!r} (choose from: {', '.join(known)})")
    return text


def _machine(value: object) -> MachineOptions:
    table = _table(value, "machine", _MACHINE)
    arch = _text(table["arch"], "machine.arch")
    if not arches.known(arch):
        raise SessionTextError(f"machine.arch is {arch!r}: unknown architecture")
    modules = [_text(each, "a module") for each in _list(table["modules"], "machine.modules")]
    patch, nop, discovery, kernel = (
        _or_none(table[name], f"machine.{name}", _text)
        for name in ("patch", "nop", "discovery", "kernel")
    )
    cpus = _count(table["cpus"], "machine.cpus", 1, 8)
    return MachineOptions(arch, kernel, tuple(modules), cpus, patch, nop, discovery)


def _done(value: object) -> list[Action]:
    # Imported here: the shell loads the emulator, and the console draws before that.
    from ...core.shell.parser import Join, Pipeline, SimpleCommand, listed, parse
    from ...core.shell.words import ShellSyntaxError

    done: list[Action] = []
    for number, each in enumerate(_list(value, "done")):
        where = f"done[{number}]"
        if isinstance(each, dict):
            table = _table(each, where, ("ns", "times"))
            ns = _count(table["ns"], f"{where}.ns", 0, MOST_NS)
            # Checked before the list is made: a few words of JSON could fill the memory.
            most = max(MOST_ACTIONS - len(done), 1)
            done += [ns] * _count(table["times"], f"{where}.times", 1, most)
            continue
        try:
            steps = parse(_text(each, where))
        except ShellSyntaxError as error:
            raise SessionTextError(f"{where} is not a command: {error}") from error
        match steps:
            case [Pipeline()]:
                done.append(listed(steps))
            # Commands run in another directory are noted as `cd DIRECTORY && COMMAND`.
            case [Pipeline(commands=[SimpleCommand(name="cd")]), Pipeline(join=Join.AND)]:
                done.append(listed(steps))
            case _:
                raise SessionTextError(f"{where} must be exactly one command")
    return done


def _layout(value: object) -> Layout:
    table = _table(value, "layout", _LAYOUT)
    zoomed = table["zoomed"]
    if not isinstance(zoomed, bool):
        raise SessionTextError("layout.zoomed must be true or false")
    marks = table["marks"]
    if not isinstance(marks, dict) or not set(marks) <= {"A", "B"}:
        raise SessionTextError("layout.marks may only have the entries A and B")
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
        raise SessionTextError(f"{where} must have {len(RowKey._fields)} entries")
    return RowKey(*(_count(part, where) for part in parts))
