"""The ports side by side, for a terminal and in Markdown.

`COLUMNS` defines the table. In a terminal each port is a block with lines for each column.
In Markdown each port is a row; the columns are divided into three tables, since a single
table would be too wide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from ..views.call_site import Code
from .support import CALLER, Support

_UNITS = (("GB", 30), ("MB", 20), ("KB", 10), ("bytes", 0))
_LABEL = 12
"""Width of a label in a terminal, in columns."""


Lines = list[tuple[str, str]]
"""Pairs of label and text; an empty label continues the one before."""


@dataclass(frozen=True, slots=True)
class Column:
    """One property of each port."""

    heading: str
    lines: Callable[[Support], Lines]
    """Returns the lines for a terminal."""
    cell: Callable[[Support], str]
    """Returns the cell in Markdown."""
    table: int = 0
    """Number of its table in Markdown."""


def _form(label: str, code: Callable[[Support], Code]) -> Column:
    """Return the column for a form of the call site."""
    return Column(
        label,
        lambda port: [(label, _padded(port, code(port)))],
        lambda port: f"`{code(port).asm}`",
    )


def _padded(port: Support, code: Code) -> str:
    """Return bytes and text; the texts of all forms of a site are aligned."""
    codes = [port.compiled, port.disabled, port.enabled]
    codes += [] if port.stub is None else [port.stub.enabled]
    width = max(3 * len(each.data) - 1 for each in codes)
    return f"{code.data.hex(' '):<{width}}  {code.asm}"


def _where(port: Support) -> str:
    """Return which calls use stubs, as text."""
    return "far away" if port.stub is not None and port.stub.far else "in a module"


def _machine(port: Support) -> str:
    return f"{port.bits}-bit, {port.byteorder}-endian"


def _place(port: Support) -> str:
    least, most = port.offsets
    found = "" if port.listed else ", found as the kernel runs"
    if most == 0:
        return f"first in the function{found}"
    far = f"{least}" if least == most else f"{least} to {most}"
    return f"{far} bytes into the function{found}"


def _code(code: Code) -> str:
    return f"{code.data.hex(' ')}  {code.asm}"


def _reach(port: Support) -> str:
    if port.reach is None:
        return "everywhere"
    back, ahead = (_size(distance) for distance in port.reach)
    if not port.reach[0]:
        return f"its {ahead} region"
    return f"+-{back}" if back == ahead else f"-{back} to +{ahead}"


def _size(distance: int) -> str:
    """Format bytes in the largest suitable unit; a few bytes less do not matter."""
    unit, shift = next((each for each in _UNITS if distance >= 0.99 * (1 << each[1])), _UNITS[-1])
    return f"{distance / (1 << shift):.3g} {unit}"


def _elsewhere(port: Support) -> Lines:
    """Return the line of an enabled site that uses a stub."""
    return [] if port.stub is None else [(_where(port), _padded(port, port.stub.enabled))]


def _in_module(port: Support) -> str:
    if port.long is not None:
        return f"`{port.long.enabled.asm}`, disabled `{port.long.disabled.asm}`"
    if port.stub is None:
        return "as in the kernel"
    return f"{'far away ' if port.stub.far else ''}`{port.stub.enabled.asm}`"


def _way(port: Support) -> Lines:
    """Return the lines of the path from a site to the tracer."""
    found = [("path", f"site -> {CALLER} -> ftrace_call -> tracer")]
    if port.stub is not None:
        stub = f"stub of {port.stub.size} bytes"
        found.append(("", f"{_where(port)}: site -> {stub} -> {CALLER} -> …"))
    return found


def _way_of_module(port: Support) -> str:
    if port.stub is None:
        way = "site" if port.long is None else f"site of {len(port.long.compiled.data)} bytes"
        return f"{way} -> `{CALLER}`"
    far = "far away: " if port.stub.far else ""
    return f"{far}site -> stub of {port.stub.size} bytes -> `{CALLER}`"


def _words_of_module(port: Support) -> str:
    """Return the instructions of a module's call, if it is longer than a kernel's."""
    if port.stub is not None:
        code = port.stub.code
    else:
        code = () if port.long is None else tuple(port.long.compiled.asm.split("; "))
    return ", ".join(f"`{text.split()[0]}`" for text in code) or "as in the kernel"


def _modules(port: Support) -> Lines:
    """Return the lines about the calls of modules."""
    if port.long is not None:
        size = len(port.long.compiled.data)
        return [
            ("modules", f"have calls of {size} bytes, which reach everything:"),
            *(("", f"  {text}") for text in port.long.compiled.asm.split("; ")),
            ("", f"disabled  {_code(port.long.disabled)}"),
            ("", f"enabled   {_code(port.long.enabled)}"),
        ]
    if port.stub is None:
        return [("modules", "reach everything without stubs")]
    far = "that are far away " if port.stub.far else ""
    code = [("", f"  {text}") for text in port.stub.code]
    return [("modules", f"{far}go through stubs of {port.stub.size} bytes:"), *code]


def _users(port: Support) -> str:
    return " or ".join(map(str, port.trampolines))


COLUMNS: tuple[Column, ...] = (
    _form("compiled", lambda port: port.compiled),
    _form("disabled", lambda port: port.disabled),
    _form("enabled", lambda port: port.enabled),
    Column("enabled in a module", _elsewhere, _in_module, 1),
    Column("machine", lambda port: [], _machine, 2),
    Column("call sites", lambda port: [("call sites", _place(port))], _place, 2),
    Column(
        "a call reaches",
        lambda port: [("a call", f"reaches {_reach(port)}")],
        _reach,
        1,
    ),
    Column("path from a module", _way, _way_of_module, 1),
    Column("its instructions", _modules, _words_of_module, 1),
    Column(
        "trampolines",
        lambda port: (
            [("trampolines", f"{_users(port)} bytes, one for each user if there are several")]
            if port.trampolines
            else []
        ),
        lambda port: f"{_users(port)} bytes" if port.trampolines else "none",
        2,
    ),
    Column(
        "patching",
        lambda port: [("patching", ", ".join(port.patch_methods))],
        lambda port: ", ".join(f"`{method}`" for method in port.patch_methods),
        2,
    ),
)
"""The properties of a port, in the order of a terminal."""


def support_lines(ports: Mapping[str, Support | None], function: str = "") -> list[str]:
    """Return a block of lines for each port; a None value means that its kernel lacks the site."""
    lines: list[str] = []
    for name, port in ports.items():
        if lines:
            lines.append("")
        if port is None:
            lines.append(f"{name}  has no call site in {function}")
            continue
        site = f", {function} at {port.site:x}" if function else ""
        lines.append(f"{name}  {_machine(port)}{site}")
        for column in COLUMNS:
            lines += [f"  {label:<{_LABEL}} {text}" for label, text in column.lines(port)]
    return lines


def forms_table(ports: Mapping[str, Support | None]) -> list[str]:
    """Return a table for a terminal: the three forms of the site, an instruction to a line."""
    heads = ("", "compiled", "disabled", "enabled")
    rows: list[list[tuple[str, ...]]] = []
    for name, port in ports.items():
        codes = () if port is None else (port.compiled, port.disabled, port.enabled)
        rows.append([(name,), *(tuple(code.asm.split("; ")) for code in codes)])
    widths = [
        max(
            [len(head), *(len(text) for row in rows for text in (row[at] if at < len(row) else ()))]
        )
        for at, head in enumerate(heads)
    ]
    lines = [" ".join(map(str.ljust, heads, widths)).rstrip()]
    for row in rows:
        for cells in zip_longest(*row, fillvalue=""):
            lines.append(" ".join(map(str.ljust, cells, widths)).rstrip())
    return lines


def support_table(ports: Mapping[str, Support | None], function: str = "") -> str:
    """Return the ports' properties in Markdown: a row for each port in each table."""
    tables = sorted({column.table for column in COLUMNS})
    return "\n".join(_table(ports, number, function) for number in tables)


def _table(ports: Mapping[str, Support | None], number: int, function: str) -> str:
    columns = [each for each in COLUMNS if each.table == number]
    rows = [["", *(each.heading for each in columns)], ["---"] * (len(columns) + 1)]
    for name, port in ports.items():
        if port is not None:
            cells = [each.cell(port) for each in columns]
        else:
            cells = [f"no call site in `{function}`", *[""] * (len(columns) - 1)]
        rows.append([f"`{name}`", *cells])
    return "".join(
        "|" + "".join(f" {cell} |" if cell else " |" for cell in row) + "\n" for row in rows
    )
