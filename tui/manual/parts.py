"""Update the generated parts of a document: `python -m dynftrace.tui.manual.parts FILE`.

A generated part is between two comments. The first comment holds the command that prints
the part. A test compares the document with the output of that command.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from ..explore.comparison import compared_table
from ..files.whole_file import write_whole

TABLE = "dynftrace compare --markdown schedule"


def with_part(text: str, command: str, part: str) -> str:
    """Return `text` with `part` between the comments of `command`.

    Raises `ValueError` unless `text` has exactly one such pair of comments.
    """
    marks = re.compile(rf"(<!-- {re.escape(command)} -->\n).*?(<!-- end -->)", re.DOTALL)
    changed, found = marks.subn(lambda match: f"{match[1]}{part}{match[2]}", text)
    if found != 1:
        raise ValueError(f"expected one place for the output of `{command}`, found {found}")
    return changed


def made(text: str) -> str:
    """Return the document `text` with its generated parts updated."""
    return with_part(text, TABLE, compared_table(TABLE.split()[-1]))


def main(path: Path) -> None:
    """Update the generated parts of the document at `path`."""
    write_whole(path, made(path.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
