"""What a line of words for the trace's filter can become."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

PLACEHOLDER = "vfs_* task:sh cpu:0,2 !pid:7"
"""What an empty line says: some words."""


def completed(text: str, words: Sequence[str]) -> list[str]:
    """Whole lines in which one of `words` takes the place of the last word of `text`.

    That may be its beginning, or the beginning of what stands behind its kind.
    """
    typed = text[text.rfind(" ") + 1 :]
    before = text[: len(text) - len(typed)] + ("!" if typed.startswith("!") else "")
    return [before + word for word in _fitting(typed.removeprefix("!"), words)]


def _fitting(typed: str, words: Sequence[str]) -> Iterator[str]:
    for word in words:
        if word.startswith(typed) or word.partition(":")[2].startswith(typed):
            yield word
