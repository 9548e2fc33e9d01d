"""A pane of instructions, each of which can be shown bit by bit."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType

from .. import keymap
from ..messages import BitsWanted
from .text_view import TextView


class CodeView(TextView):
    """Shows lines, some of which show an instruction."""

    BINDINGS: ClassVar[list[BindingType]] = [*keymap.CODE]

    def action_bits(self) -> None:
        """Draw the bit fields of the instruction under the cursor."""
        here = self.line(min(self.cursor, self.count() - 1), self.size.width)
        if here.at is None:
            self.notify("no instruction on this row", timeout=2)
        else:
            self.post_message(BitsWanted(here.at, here.data))
