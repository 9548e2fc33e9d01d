"""What the README shows of the program, written into it: `python -m dynftrace.tui.docs README.md`.

A part that is made stands between two comments, of which the first is the
command that prints it. A test compares what is there with what comes out.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from .compare import compared_table
from .wholefile import write_whole

TABLE = "dynftrace compare --markdown schedule"


def with_part(text: str, command: str, part: str) -> str:
    """`text` with `part` between the comments of `command`; raises `ValueError` without them."""
    marks = re.compile(rf"(<!-- {re.escape(command)} -->\n).*?(<!-- end -->)", re.DOTALL)
    changed, found = marks.subn(lambda match: f"{match[1]}{part}{match[2]}", text)
    if found != 1:
        raise ValueError(f"{found} places for what `{command}` prints, not one")
    return changed


def made(text: str) -> str:
    """The README `text` with all its parts as they are now."""
    return with_part(text, TABLE, compared_table(TABLE.split()[-1]))


def main(path: Path) -> None:
    """Write the parts of the README at `path` again."""
    write_whole(path, made(path.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "README.md"))
