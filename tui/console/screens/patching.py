"""The patch screen: in the middle of a change of text, one phase at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from ...present.line import line, short
from ...present.patching import head_lines, rows_of
from ...present.view import PATCH, View
from .. import keymap
from ..protocols import Console
from ..widgets.keys_bar import KeysBar
from .moment import Fixed, MomentScreen

if TYPE_CHECKING:
    from ....core.views.patching import PatchView

_AROUND = 4
"""Rows of the screen that do not belong to the body: two of the head, command, keys."""


class PatchScreen(MomentScreen):
    """Shows the newest `PatchView`; its keys execute commands of the shell."""

    BINDINGS: ClassVar[list[BindingType]] = [*keymap.PATCH]
    AUTO_FOCUS = "#patch-body"
    NUMBER = PATCH

    def __init__(self, console: Console, workload: str | None, cpu: int | None = None) -> None:
        """`workload` brings a CPU to the site; None if a CPU gets there without one.

        `cpu` is the CPU to choose; None means one at the site.
        """
        super().__init__(console)
        self._workload = workload
        self._view: PatchView | None = None
        self._mode = ""
        self._cpu = cpu or 0
        self._picked = cpu is not None
        """Whether the user has chosen the CPU; otherwise it is one that has reached the site."""
        self.head = Fixed(id="patch-head", empty="")
        self.body = Fixed(id="patch-body", empty="")

    def compose(self) -> ComposeResult:
        """Compose head, body, the task of a tour, the last command, the keys."""
        yield self.head
        yield self.body
        yield self.todo
        yield self.equivalent
        yield KeysBar()

    def on_mount(self) -> None:
        """Keep the focus off the head."""
        self.head.can_focus = False
        self.equivalent.hint("n does the next phase, i leads a CPU to the site, q closes")

    def on_resize(self) -> None:
        """Lay out for the new size."""
        self._draw()

    def show(self, view: View, mode: str) -> None:
        """Show a new view."""
        self._view, self._mode = view.patching, mode
        self._draw()

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        view, width = self._view, self.size.width
        task = self.todo.rows(width)
        self.todo.styles.height = task
        height = max(self.size.height - _AROUND - task, 1)
        self.body.styles.height = height
        if view is None:
            self.head.show((line((" the patch is complete", "good")), line("")))
            self.body.show((line(" No patch is under way. p watches the next one, q closes."),))
            return
        at_site = [
            lane.cpu
            for lane in view.lanes
            if lane.offset is not None and 0 <= lane.offset < len(lane.site)
        ]
        if at_site and not self._picked:
            self._cpu = at_site[0]
        self._cpu = min(self._cpu, len(view.lanes) - 1)
        self.head.show(head_lines(view, self._mode))
        self.body.show(rows_of(view, height, width - 1, self._cpu))

    def action_next(self) -> None:
        """Do the next phase."""
        self._command("patch next")

    def action_finish(self) -> None:
        """Do all phases that remain."""
        self._command("patch finish")

    def action_watch(self) -> None:
        """Watch the next patch."""
        self._command("patch watch on")

    def action_step(self) -> None:
        """Execute one instruction of the chosen CPU."""
        self._command(f"step 1 {self._cpu}")

    def action_into(self) -> None:
        """Run until a CPU is about to execute the site."""
        if self._view is not None:
            self._picked = False
            workload = "" if self._workload is None else f" {self._workload}"
            self._command(f"until {self._view.ip:#x}{workload}")

    def action_run(self) -> None:
        """Run or pause the machine."""
        self.console.runner.toggle()

    def action_next_cpu(self) -> None:
        """Choose the next CPU."""
        if self._view is not None:
            self._cpu, self._picked = (self._cpu + 1) % len(self._view.lanes), True
            self._draw()

    def action_copy(self) -> None:
        """Copy the site's bytes in memory."""
        if self._view is not None:
            text = self._view.now.hex(" ")
            self.app.copy_to_clipboard(text)
            self.notify(f"copied: {short(text)}", timeout=2)
