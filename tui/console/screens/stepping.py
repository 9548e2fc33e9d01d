"""The stepping screen: one CPU, instruction by instruction.

Code and registers have fixed rows: a step changes their content and moves nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical

from ...present.line import Line, plain, short
from ...present.stepping import (
    LEAST_CODE,
    MOST_CODE,
    code_rows,
    head_line,
    hop_line,
    operand_rows,
    register_columns,
    register_height,
    register_rows,
    source_line,
    stack_rows,
    window,
)
from ...present.view import STEPPING, View
from .. import keymap
from ..protocols import Console
from ..widgets.keys_bar import KeysBar
from .moment import Fixed, MomentScreen

if TYPE_CHECKING:
    from ....core.views.stepping import Stepping
    from ...present.call_path import PathText

BESIDE = 110
"""Minimum width at which the registers are beside the code."""

SIDE_BY_SIDE = 170
"""Minimum width at which registers, stack and call path are all visible."""

_AROUND = 5
"""Rows of the screen that show neither code nor registers."""

_LOW = 28
"""Height below which the head has three rows: no place, and only one row of operands."""

_LEAST_STACK = 8
"""Minimum rows of stack and call path if they are below the code."""

_PARTS = ("registers", "stack", "path")
"""The panes beside or below the code; a key switches between them."""


class SteppingScreen(MomentScreen):
    """Shows the newest `Stepping`; its keys execute commands of the shell."""

    BINDINGS: ClassVar[list[BindingType]] = [*keymap.STEPPING]
    AUTO_FOCUS = "#step-registers"
    NUMBER = STEPPING

    def __init__(self, console: Console, target: str | None = None) -> None:
        """`target` has the words after `until` that run to the same place again."""
        super().__init__(console)
        self.target = target
        self._view: Stepping | None = None
        self._top: int | None = None
        self.head = Fixed(id="step-head", empty="")
        self.code = Fixed(id="step-code", empty="")
        self.registers = Fixed(id="step-registers", empty="")
        self.stack = Fixed(id="step-stack", empty="")
        self.path = Fixed(id="step-path", empty="this CPU is not on a call path")
        self.right = Vertical(self.registers, self.stack, id="step-right")
        self._part = 0
        self._path: PathText | None = None
        self._mode = ""
        self._beside: tuple[str, int] | None = None
        """The mode and the rows of the tour's task that were drawn last."""

    def compose(self) -> ComposeResult:
        """Compose head, code, registers, the task of a tour, the last command, the keys."""
        yield self.head
        with Container(id="step-body"):
            with Vertical(id="step-left"):
                yield self.code
                yield self.path
            yield self.right
        yield self.todo
        yield self.equivalent
        yield KeysBar()

    def on_mount(self) -> None:
        """Keep the focus off the code, whose rows follow pc."""
        self.head.can_focus = self.code.can_focus = False
        self._place_part()
        self.equivalent.hint("each key shows its command here; s steps, o steps out, q closes")

    def on_resize(self) -> None:
        """Lay out for the new size."""
        self._draw()

    def show(self, view: View, mode: str) -> None:
        """Show a new view."""
        if view.stepping is None:
            return
        beside = mode, self.todo.rows(self.size.width)
        if view.stepping is self._view and view.call is self._path and beside == self._beside:
            return  # the console shows each view many times
        self._view, self._path, self._beside = view.stepping, view.call, beside
        self._mode = mode
        self._draw()

    def _draw(self) -> None:
        view = self._view
        if view is None or not self.is_mounted:
            return
        width, task = self.size.width, self.todo.rows(self.size.width)
        self.todo.styles.height = task
        low = self.size.height - task < _LOW
        self.set_class(low, "-low")
        height = max(self.size.height - _AROUND - task - (0 if low else 2), 2)
        beside, every = width >= BESIDE, width >= SIDE_BY_SIDE
        self.set_class(beside, "-beside")
        self.set_class(every, "-every")
        below = False
        part = _PARTS[self._part]
        self.registers.display = every or part == "registers"
        self.stack.display = every or part == "stack"
        self.path.display = every or part == "path"
        right = self.right
        right.display = every or part != "path"
        columns, code, side = 2, height, width
        if every:
            side = width * 2 // 5
            columns = register_columns(view, side - 3)
            code = height * 3 // 5
            rows = register_height(view, columns)
            self.registers.styles.height, self.stack.styles.height = rows, height - rows
            self.path.styles.height = height - code
        elif beside and part != "path":
            columns = 1 if len(view.registers) <= height else 2
            code_width = max((len(plain(row)) + 4 for row in code_rows(view)), default=0)
            side = max(self._side(view, columns), min(width - code_width, width // 2))
            side = max(side, width // 2) if part == "stack" else side
            rows = register_height(view, columns) if part == "registers" else 0
            below = part == "registers" and height - rows > _LEAST_STACK
            self.stack.display = part == "stack" or below
            self.registers.styles.height = rows if below else height
            self.stack.styles.height = height - rows
        else:
            columns = register_columns(view, width - 1)
            needed = register_height(view, columns) if part == "registers" else _LEAST_STACK
            code = max(LEAST_CODE, min(MOST_CODE, height - needed - 1))
            code = min(code, max(height - 1, 1))
            self.set_class(height - code <= needed, "-tight")
            for each in (self.registers, self.stack, self.path):
                each.styles.height = height - code
        self.set_class(below, "-both")
        right.styles.width = "100%" if side == width else side
        right.styles.height = height if side < width else height - code
        self.code.styles.height = code
        head, source, hops = head_line(view, self._mode), source_line(view), hop_line(view)
        registers, memory = operand_rows(view, width)
        if low:
            self.head.show((head, memory if view.operands.memory else registers, hops))
        else:
            self.head.show((head, source, hops, registers, memory))
        first = window(view.code, self._top, code)
        self._top = view.code[first].address if view.code else None
        shown: tuple[Line, ...] = code_rows(view)[first : first + code]
        self.code.show(shown)
        self.registers.show(register_rows(view, columns))
        self.stack.show(stack_rows(view, side - 3))
        path = self._path
        room = width - side - 3 if every else width - 3
        self.path.show(() if path is None else path.fitted(room, 99))

    def _place_part(self) -> None:
        """Give the focus to the part whose rows the keys scroll."""
        (self.registers, self.stack, self.path)[self._part].focus()

    def action_beside(self) -> None:
        """Show the next of registers, stack and call path; if all are shown, scroll that one."""
        self._part = (self._part + 1) % len(_PARTS)
        self._draw()
        self._place_part()

    def _side(self, view: Stepping, columns: int) -> int:
        """Return the width, in cells, of the registers beside the code."""
        rows = register_rows(view, columns)
        return max((len(plain(row)) for row in rows), default=0) + 4

    def _cpu(self) -> int:
        return 0 if self._view is None else self._view.cpu

    def action_step(self) -> None:
        """Execute one instruction."""
        self._command(f"step 1 {self._cpu()}")

    def action_over(self) -> None:
        """Execute one instruction; run a call up to its return."""
        self._command(f"next {self._cpu()}")

    def action_out(self) -> None:
        """Run until the function returns."""
        self._command(f"finish {self._cpu()}")

    def action_return_(self) -> None:
        """Return from the event that was visited."""
        self._command("goto -")

    def action_run_on(self) -> None:
        """Run to the same place again; without such a place, run or pause."""
        if self.target is None:
            self.console.runner.toggle()
        else:
            self._command(f"until {self.target}")

    def action_next_cpu(self) -> None:
        """Show the next CPU."""
        self.console.ask(lambda driver: driver.watch(1))

    def action_bits(self) -> None:
        """Show the bit fields of the next instruction."""
        here = self._here()
        if here is not None:
            self.console.command(f"bits {here.at:#x}")

    def action_copy(self) -> None:
        """Copy the row of the next instruction."""
        here = self._here()
        if here is not None:
            self.app.copy_to_clipboard(here.copied)
            self.notify(f"copied: {short(here.copied)}", timeout=2)

    def _here(self) -> Line | None:
        """Return the row of the next instruction."""
        rows = () if self._view is None else code_rows(self._view)
        return next((row for row in rows if row.mark is not None), None)
