"""The ports side by side, at the call site of one function: the table of `dynftrace compare`."""

from __future__ import annotations

from .. import arches
from ..core.errors import UsageError
from ..core.shell.text.support import support_lines, support_table
from ..core.views.support import EXAMPLE, Support, support


def compared(function: str = EXAMPLE) -> list[str]:
    """Lines for a terminal; raises `UsageError` where no kernel has `function`."""
    return support_lines(_ports(function), function)


def compared_table(function: str = EXAMPLE) -> str:
    """The same in Markdown; raises `UsageError` where no kernel has `function`."""
    return support_table(_ports(function), function)


def _ports(function: str) -> dict[str, Support | None]:
    """Each port that comes along, by its name; None where its kernel has no such site."""
    found = {name: _of(name, function) for name in arches.built_in()}
    if not any(found.values()):
        raise UsageError(f"no function '{function}' with a call site in any kernel")
    return found


def _of(name: str, function: str) -> Support | None:
    try:
        return support(arches.load(name), function)
    except UsageError:
        return None
