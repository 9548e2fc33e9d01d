"""Pane 3: the path of a call, drawn for the pane's size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .code_view import CodeView

if TYPE_CHECKING:
    from ...present.call_path import PathText


class PathView(CodeView):
    """Shows the path of a call to the tracer."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, empty="opening…")
        self._path: PathText | None = None

    def show_path(self, path: PathText | None) -> None:
        """Show `path`; None before the machine is booted."""
        if path != self._path:
            self._path = path
            self._draw()

    def on_resize(self) -> None:
        """Draw the path for the new size."""
        super().on_resize()
        self._draw()

    def _draw(self) -> None:
        size = self.size
        width = size.width - self.styles.scrollbar_size_vertical  # shown now or not
        self.show(() if self._path is None or not size else self._path.fitted(width, size.height))
