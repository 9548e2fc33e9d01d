"""Input from the terminal: sequences with impossible numbers are ignored.

A terminal, or a visitor's page, may send a key such as `ESC [ 9999999999 u`. Textual 8.2.8
converts the number to a character or a float, and its input thread dies of the exception. So
its parser treats such a sequence as unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from textual import events
from textual._xterm_parser import XTermParser
from textual.message import Message

_IMPOSSIBLE = (ValueError, OverflowError)


@cache
def guard_parser() -> None:
    """Have Textual's parser ignore sequences with impossible numbers, in this process."""
    keys, mouse = XTermParser._sequence_to_key_events, XTermParser.parse_mouse_code

    def guarded_keys(self: XTermParser, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        try:
            return list(keys(self, sequence, alt))
        except _IMPOSSIBLE:
            return [events.Key("ignore", sequence)]

    def guarded_mouse(self: XTermParser, code: str) -> Message | None:
        try:
            return mouse(self, code)
        except _IMPOSSIBLE:
            return None

    XTermParser._sequence_to_key_events = guarded_keys  # type: ignore[method-assign]
    XTermParser.parse_mouse_code = guarded_mouse  # type: ignore[method-assign]
