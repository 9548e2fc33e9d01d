"""A pane of instructions: call site, trampoline; each can be looked at bit by bit."""

from __future__ import annotations

import re
from typing import ClassVar

from textual.binding import BindingType

from .. import keymap
from ..messages import CommandWanted
from ..spans import plain
from .text_view import TextView

_ADDRESS = re.compile(r"\W*(?:ip )?([0-9a-f]{8,16})\b")
"""How a line with an instruction begins; further forms of it stand below without one."""


class CodeView(TextView):
    """Shows lines, some of which begin with an address."""

    BINDINGS: ClassVar[list[BindingType]] = [*keymap.CODE]

    def action_bits(self) -> None:
        """Draw the bit fields of the instruction under the cursor."""
        for row in range(min(self.cursor, self.count() - 1), -1, -1):
            found = _ADDRESS.match(plain(self.line(row, self.size.width)))
            if found is not None:
                self.post_message(CommandWanted(f"bits 0x{found[1]}"))
                return
        self.notify("no instruction here", timeout=2)
