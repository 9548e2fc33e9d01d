"""One function on every port: the same site in each architecture's bytes."""

from __future__ import annotations

from .. import arches
from ..core.errors import UsageError
from ..core.views.support import Support, support
from ..core.views.supporttext import compare_lines


def compared(function: str) -> list[str]:
    """The lines of the comparison; raises `UsageError` where no kernel has `function`."""
    found = {name: _of(name, function) for name in arches.built_in()}
    if not any(found.values()):
        raise UsageError(f"no function '{function}' with a call site in any kernel")
    return compare_lines(function, found)


def _of(name: str, function: str) -> Support | None:
    try:
        return support(arches.load(name), function)
    except UsageError:
        return None
