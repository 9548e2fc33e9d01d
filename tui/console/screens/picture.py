"""A screen with a picture of bars on a scale: address map, CPU lanes, flame graph, histogram.

Lanes have a cursor in time, which is that of the trace: moving one moves the other. The rows of
the trace around it are below the lanes, if there is room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from ....core.views.drawing import Drawing, drawn, scale_cells, svg
from ...present.line import line
from .. import keymap
from ..messages import DrawingWanted, TimeWanted
from ..protocols import Console
from ..widgets.equivalent_command import EquivalentCommand
from ..widgets.keys_bar import KeysBar
from ..widgets.text_view import TextView
from ..widgets.trace_rows import TraceRows
from .tourkeys import TourKeys

if TYPE_CHECKING:
    from ....core.trace.select.explorer import TraceExplorer
    from ....core.views.lanes import Lanes
    from ....core.views.time_pictures import FlameGraph
    from ....core.views.times import Frame

_LEAST_NS = 64
"""Shortest time that the lanes show."""

_LEAST_ROWS = 5
"""Rows of the trace for which it is shown below the lanes."""


class PictureRows(TextView):
    """The rows of the picture."""

    HAS_CURSOR = False

    def action_left(self) -> None:
        """Move the cursor of the lanes, choose the frame to the left, or scroll."""
        if not self._on_screen(-1, 0):
            super().action_left()

    def action_right(self) -> None:
        """Move the cursor of the lanes, choose the frame to the right, or scroll."""
        if not self._on_screen(1, 0):
            super().action_right()

    def action_up(self) -> None:
        """Choose the caller, or scroll."""
        if not self._on_screen(0, -1):
            super().action_up()

    def action_down(self) -> None:
        """Choose the largest of the calls, or scroll."""
        if not self._on_screen(0, 1):
            super().action_down()

    def _on_screen(self, right: int, down: int) -> bool:
        """Move the screen's cursor or frame; return False if it has neither."""
        screen = self.screen
        if isinstance(screen, PictureScreen):
            if screen.lanes is not None and right:
                screen.action_move(right)
                return True
            if screen.flame is not None:
                screen.choose(right, down)
                return True
        return False


class AroundCursor(TraceRows, can_focus=False):
    """The rows of the trace around the cursor of the lanes."""

    CURSOR_WHEN_BLURRED = True


class PictureScreen(TourKeys):
    """Shows a picture; `escape` closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [*keymap.PICTURE]
    AUTO_FOCUS = "#picture-rows"

    def __init__(
        self,
        console: Console,
        command: str,
        picture: Drawing | FlameGraph | Lanes,
        cursor: int | None = None,
        trace: TraceExplorer | None = None,
    ) -> None:
        """`command` shows the same in the shell, "" if nothing does.

        `cursor` is the time of the `trace`'s cursor.
        """
        # Imported late: the first paint must not wait for numpy.
        from ....core.views.time_pictures import FlameGraph

        super().__init__()
        self.console = console
        self._command = command
        self.lanes: Lanes | None = None
        self.flame: FlameGraph | None = None
        self.way: list[Frame] = []
        """In a flame graph: the frames from the root to the chosen one."""
        self._top = 0
        """Which of them fills the width."""
        self._drawing: Drawing | None = None
        self.start, self.end = 0, 1
        self.cursor = cursor
        if isinstance(picture, Drawing):
            self._drawing = picture
        elif isinstance(picture, FlameGraph):
            self.flame = picture
            self.way = [picture.root]
        else:
            self.lanes = picture
            self.start, self.end = picture.span
            if cursor is None:
                self.cursor = self.start
        self._trace = trace
        self.rows = PictureRows(id="picture-rows")
        self.around = AroundCursor(id="picture-trace")
        self.equivalent = EquivalentCommand(id="equivalent")

    def compose(self) -> ComposeResult:
        """Compose the picture, the command and the keys."""
        yield self.rows
        yield self.around
        yield self.equivalent
        yield KeysBar()

    def on_mount(self) -> None:
        """Say which command shows the same."""
        self._draw()

    def on_resize(self) -> None:
        """Draw for the new size."""
        self._draw()

    @property
    def drawing(self) -> Drawing:
        """The picture as shown now."""
        if self.flame is not None:
            return self.flame.drawing(self.way, self._top)
        if self.lanes is None:
            assert self._drawing is not None
            return self._drawing
        return self.lanes.drawing(self.start, self.end, self._bins(), self.cursor)

    def _bins(self) -> int:
        """Return the number of cells of the lanes' scale."""
        assert self.lanes is not None
        sample = self.lanes.drawing(self.start, self.end, 8, self.cursor)
        return scale_cells(sample, self._width())[1]

    def _width(self) -> int:
        return max(self.size.width - 2, 40)

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        rows = [line(*spans) for spans in drawn(self.drawing, self._width())]
        self.rows.show(rows)
        self._show_around(self.size.height - len(rows) - 3)
        command = self._command
        if self.lanes is not None:
            command += f" {self.start} {self.end}"
        if self._top:
            command += " " + ",".join(frame.name for frame in self.way[1 : self._top + 1])
        if self._command:
            self.equivalent.show(command, "", failed=False)

    def _show_around(self, room: int) -> None:
        """Show the rows of the trace around the cursor, in the `room` rows below the lanes."""
        row = None
        if self._trace is not None and self.cursor is not None and room >= _LEAST_ROWS:
            row = self._trace.row_near(self.cursor)
        self.set_class(self.lanes is not None and row is not None, "-around")
        if row is not None:
            self.around.show(self._trace)
            self.around.go_to_row(row)
            self.around.show_row(row, context=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable the keys of time for lanes only, and those of frames for flame graphs."""
        if action in ("zoom", "move", "shift", "next_event", "visit"):
            return self.lanes is not None
        if action in ("into", "outward"):
            return self.flame is not None
        return super().check_action(action, parameters)

    def action_zoom(self, factor: float) -> None:
        """Show `factor` times as much time around the cursor."""
        assert self.lanes is not None
        first, last = self.lanes.span
        middle = self.start if self.cursor is None else self.cursor
        share = (middle - self.start) / max(self.end - self.start, 1)
        size = min(max(round((self.end - self.start) * factor), _LEAST_NS), last - first)
        self.start = min(max(round(middle - share * size), first), max(last - size, first))
        self.end = self.start + max(size, 1)
        self._draw()

    def action_move(self, cells: int) -> None:
        """Move the cursor by `cells` cells; the picture follows at its edges."""
        assert self.lanes is not None
        step = max((self.end - self.start) // max(self._bins(), 1), 1)
        self._go((self.cursor or self.start) + cells * step)

    def action_shift(self, share: float) -> None:
        """Scroll by a `share` of the shown range, and move the cursor with it."""
        self._go((self.cursor or self.start) + round(share * (self.end - self.start)))

    def action_next_event(self, step: int) -> None:
        """Move the cursor to the next event in direction `step`, on any CPU."""
        assert self.lanes is not None
        found = self.lanes.beyond(self.cursor or self.start, step)
        if found is not None:
            self._go(found)

    def _go(self, time: int) -> None:
        """Put the cursor at `time`, in sight, and the cursor of the trace at the nearest event."""
        assert self.lanes is not None
        first, last = self.lanes.span
        self.cursor = min(max(time, first), last - 1)
        size = self.end - self.start
        if not self.start <= self.cursor < self.end:
            self.start = min(max(self.cursor - size // 2, first), max(last - size, first))
            self.end = self.start + size
        self._draw()
        self.app.post_message(TimeWanted(self.cursor))

    def action_visit(self) -> None:
        """Close the picture; the trace's cursor is at the same time."""
        self.dismiss(None)

    def choose(self, right: int, down: int) -> None:
        """Choose the next frame in a direction: a caller, a call, or another call of the caller."""
        assert self.flame is not None
        path, whole = self.way, self.way[self._top].total_ns
        if down < 0 and len(path) > self._top + 1:
            path.pop()
        elif down > 0:
            inner = self.flame.calls(path[-1], whole)
            path += [max(inner, key=lambda each: each.total_ns)] if inner else []
        elif right and len(path) > self._top + 1:
            beside = self.flame.calls(path[-2], whole)
            at = beside.index(path[-1]) + right
            path[-1] = beside[min(max(at, 0), len(beside) - 1)]
        self._draw()
        self.rows.show_row(len(path) - self._top)

    def action_into(self) -> None:
        """Let the chosen frame fill the width."""
        self._top = len(self.way) - 1
        self._draw()

    def action_outward(self) -> None:
        """Let the caller of the frame that fills the width fill it."""
        self._top = max(self._top - 1, 0)
        self._draw()

    def action_save(self) -> None:
        """Save the picture as SVG."""
        self.app.post_message(DrawingWanted(svg(self.drawing)))

    def action_close(self) -> None:
        """Show the whole flame graph again; else go back."""
        if self._top:
            self._top = 0
            self._draw()
        else:
            self.dismiss(None)
