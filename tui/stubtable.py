"""Below the way of a module's call: why it needs a stub, and the table of the module's stubs."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.views.stubs import StubView
from .spans import Line, Span, fit, line

_NAME = 32


def reason_lines(reason: Sequence[str]) -> tuple[Line, ...]:
    """Why the call does not go to ftrace_caller itself; nothing where it does."""
    return tuple(line((f"  {each}", "accent")) for each in reason)


def table_lines(module: str, stubs: Sequence[StubView]) -> tuple[Line, ...]:
    """A line for each stub of `module`: where it leads, and how many call sites need it."""
    if not stubs:
        return ()
    width = min(max(len(stub.hop.name) for stub in stubs), _NAME)
    lines = [line(""), line((f"stubs of {module}", "strong"))]
    for stub in stubs:
        hop = stub.hop
        sign: Span = ("✓ ", "good") if hop.verified else ("! ", "bad")
        users = [
            f"{count} site{'' if count == 1 else 's'} {when}"
            for count, when in ((stub.compiled, "as compiled"), (stub.enabled, "when enabled"))
            if count
        ]
        lines.append(
            line(
                sign,
                (fit(hop.name, width) + "  ", "link"),
                (f"{hop.address:x}  ", "dim"),
                (
                    ", ".join(users) if users and hop.verified else hop.note,
                    "" if hop.verified else "bad",
                ),
                at=hop.address if hop.insns else None,
            )
        )
    return tuple(lines)
