"""The list of completions above the command line."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

SHOWN = 8
"""Candidates shown at once."""


class Candidates(Static):
    """Shows the words that can complete the last word of the command line."""

    ALLOW_SELECT = False

    def show(self, words: Sequence[str], chosen: int | None, hint: str = "") -> None:
        """List `words` around the `chosen` one, below the `hint`; hide if both are empty."""
        self.remove_class("-wrong")
        self.display = bool(words or hint)
        if not self.display:
            return
        parts = [Content.styled(hint, "dim")] if hint else []
        self.update(Content("\n").join([*parts, *self._listed(words, chosen)]))

    def _listed(self, words: Sequence[str], chosen: int | None) -> list[Content]:
        if not words:
            return []
        first = 0 if chosen is None else max(0, min(chosen - SHOWN // 2, len(words) - SHOWN))
        # Each candidate is a whole line: show only its last word.
        before = words[0].rfind(" ") + 1
        words = [word[before:] for word in words]
        width = max(24, *(len(word) for word in words)) + 1
        parts: list[Content] = []
        for number, word in enumerate(words[first : first + SHOWN], first):
            mark = "▶" if number == chosen else " "
            parts.append(
                Content.styled(f"{mark} {word:<{width}}", "reverse" if number == chosen else "")
            )
        more = len(words) - first - SHOWN
        if more > 0:
            parts.append(Content.styled(f"  and {more:,} more", "dim"))
        return parts

    def show_wrong(self, reason: str, column: int) -> None:
        """Show `reason`, and a mark above `column` of the command line."""
        self.display = True
        self.add_class("-wrong")
        self.update(
            Content.assemble(
                ("! ", "bold $error"),
                (reason, "$error"),
                "\n",
                f"{'':{column}}",
                ("▼", "bold $error"),
            )
        )


def shared(words: Sequence[str]) -> str:
    """Return the longest common prefix of `words`."""
    first, last = min(words), max(words)
    for at, letter in enumerate(first):
        if at >= len(last) or last[at] != letter:
            return first[:at]
    return first
