"""Comparing the shown function on every port."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.errors import DynftraceError
from ...present.line import line
from ..protocols import Console
from ..screens.box import Box
from ..worker import Driver


def compare(console: Console) -> None:
    """Open a box with the call site of the shown function on every port."""
    view = console.view
    index = None if view.ip is None or view.functions is None else view.functions.find(view.ip)
    if view.functions is None or index is None:
        console.notify("show a call site first", timeout=3)
        return
    name = view.functions.row(index).name.lstrip(".")

    def made(_: Driver) -> Sequence[str]:
        from ...explore.comparison import compared

        try:
            return compared(name)
        except DynftraceError as error:
            return [str(error)]

    def show(lines: Sequence[str]) -> None:
        if console.at_main:
            title = f"{name} on every architecture"
            console.open_over(Box(title, [line(each) for each in lines]))

    console.ask(made, show)
