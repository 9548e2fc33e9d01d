"""Pane 2: the call site, drawn for the pane's size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...present.empty_states import NO_SITE
from ...present.line import line
from .code_view import CodeView

if TYPE_CHECKING:
    from ...present.call_site import SiteText


class SiteView(CodeView):
    """Shows a call site; the text that the tracer changes stays visible."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, empty="opening…")
        self._site: SiteText | None = None

    def show_site(self, site: SiteText | None, *, booted: bool) -> None:
        """Show `site`; None if ftraced has found none, or before the machine is `booted`."""
        none = line((NO_SITE, "dim"))
        if booted and site is None and self._empty != none:
            self._empty = none
            self.changed()
        if site != self._site:
            self._site = site
            self._draw()

    def on_resize(self) -> None:
        """Draw the site for the new size."""
        super().on_resize()
        self._draw()

    def _draw(self) -> None:
        size = self.size
        if self._site is None or not size:
            self.show(())
            return
        width = size.width - self.scrollbar_size_vertical
        lines, first, last = self._site.fitted(width, size.height)
        self.show(lines, first)
        self.show_row(last)
        self.show_row(first)
