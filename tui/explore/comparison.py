"""`dynftrace compare`: the call site of one function on every port, side by side."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

from ... import arches
from ...core.errors import UsageError
from ...core.portcheck.support import EXAMPLE, Support, support
from ...core.portcheck.support_text import forms_table, support_lines, support_table


def compared(function: str = EXAMPLE) -> list[str]:
    """Return lines for a terminal: a table of the site's forms, then all of each port.

    Raises `UsageError` if no kernel has `function`.
    """
    ports = _ports(function)
    return [*forms_table(ports), "", *support_lines(ports, function)]


def compared_table(function: str = EXAMPLE) -> str:
    """Return Markdown tables; raises `UsageError` if no kernel has `function`."""
    return support_table(_ports(function), function)


def compared_objects(function: str = EXAMPLE) -> list[dict[str, object]]:
    """Return an object for each port, for JSON: bytes are hex strings, absent parts null.

    If a port's kernel lacks the function, `compiled` is null. Raises `UsageError` if no kernel has
    `function`.
    """
    ports = _ports(function)
    return [
        {"port": name, "compiled": None} if each is None else {"port": name, **_fields(each)}
        for name, each in ports.items()
    ]


def _fields(value: object) -> dict[str, object]:
    return {
        each.name: _plain(getattr(value, each.name))
        for each in fields(value)  # type: ignore[arg-type]
        if each.name != "name"
    }


def _plain(value: object) -> object:
    """Return `value` in types that JSON has."""
    if is_dataclass(value):
        return _fields(value)
    return value.hex() if isinstance(value, bytes) else value


def _ports(function: str) -> dict[str, Support | None]:
    """Return all built-in ports by name; None if the port's kernel has no such site."""
    found = {name: _of(name, function) for name in arches.built_in()}
    if not any(found.values()):
        raise UsageError(f"no kernel has a call site in a function '{function}'")
    return found


def _of(name: str, function: str) -> Support | None:
    try:
        return support(arches.load(name), function)
    except UsageError:
        return None
