"""Completion of the trace's filter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

PLACEHOLDER = "vfs_* task:sh cpu:0,2 !pid:7"
"""Examples of words, shown in an empty line."""


def completed(text: str, words: Sequence[str]) -> list[str]:
    """Return the lines in which one of `words` completes the last word of `text`.

    That word is the beginning of one of `words`, or of the part after its `kind:`.
    """
    typed = text[text.rfind(" ") + 1 :]
    before = text[: len(text) - len(typed)] + ("!" if typed.startswith("!") else "")
    return [before + word for word in _fitting(typed.removeprefix("!"), words)]


def _fitting(typed: str, words: Sequence[str]) -> Iterator[str]:
    for word in words:
        if word.startswith(typed) or word.partition(":")[2].startswith(typed):
            yield word
