"""Keys in prose: what the README or a lesson asks its reader to press and type.

In backticks, `:command` is typed on the command line, `text` after the word "type" is typed,
and names of keys after the word "press" are pressed. All other words in backticks are only
mentioned. A sentence that begins with "Or" gives another way to do the same.
"""

from __future__ import annotations

import re

TOKEN = re.compile(r"`([^`]+)`( twice| four times| five times)?")
OR = re.compile(r"(?:^|(?<=[.;:] )|(?<=` ))Or (?=\w|`)")
LIST = re.compile(r"(,|,? and|,? then|, and then)\s*\Z")
TIMES = {"": 1, " twice": 2, " four times": 4, " five times": 5}

NAMES = {
    "/": "slash",
    ":": "colon",
    "?": "question_mark",
    "-": "minus",
    "+": "plus",
    "esc": "escape",
}
"""Textual's names of the keys that prose writes as signs."""


def ways(text: str) -> list[list[str]]:
    """Return the keys of each way that `text` gives, without ways that have none."""
    return [keys for way in OR.split(" ".join(text.split())) if (keys := _keys(way))]


def _keys(text: str) -> list[str]:
    keys: list[str] = []
    pressing = False
    end = 0
    for token in TOKEN.finditer(text):
        word, before, times = token[1], text[end : token.start()], TIMES[token[2] or ""]
        end = token.end()
        pressing = bool(re.search(r"\b[Pp]ress(ing)? \Z", before)) or (
            pressing and LIST.match(before) is not None
        )
        if word.startswith(":") and len(word) > 1:
            keys += ["colon", *word[1:], "enter"]
        elif re.search(r"\b[Tt]yp(e|ing) \Z", before):
            keys += word
            pressing = False
        elif pressing:
            keys += [NAMES.get(word, word)] * times
    return keys
