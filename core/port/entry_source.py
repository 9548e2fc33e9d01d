"""The source of a port's entry code: entry.S with the files that it includes.

Ports of a family share parts of their entry code and differ in the width of a word or the
layout of a stack frame. With two directives of the C preprocessor, the shared part is in one
file, and each port's own file draws its stack frame:

    #include "../graph.S"       the text of that file; the path is relative to this file
    #define PTR_L lw            from here on the word PTR_L stands for `lw`

The assembler (Keystone) never sees a file name: it would look for the file in the user's
current folder. As a script, this module prints the text of the file that it is given: the images
are built from it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from ..errors import AssemblyError

_DIRECTIVE = re.compile(r'#(?:include\s+"(?P<file>[^"]+)"|define\s+(?P<name>\w+)(?P<text>.*))\s*')


def read_entry_source(path: Path) -> str:
    """Return the text of the assembly file `path` with its directives applied.

    Raises `OSError` for a file that cannot be read, and `AssemblyError` for a line that
    begins with `#` but is not one of the two directives, or that defines a word again.
    """
    return _expanded(path, {})


def _expanded(path: Path, defined: dict[str, str]) -> str:
    """Return the text of `path`; `defined` has the words so far, and those of `path` are added."""
    lines = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.startswith("#"):
            lines.append(re.sub(r"\b[A-Z]\w+\b", lambda word: defined.get(word[0], word[0]), line))
            continue
        directive = _DIRECTIVE.fullmatch(line)
        if directive is None:
            raise AssemblyError(f"{path}: unknown directive: {line}", line, number)
        if directive["file"]:
            lines.append(_expanded(path.parent / directive["file"], defined))
            continue
        if directive["name"] in defined:
            raise AssemblyError(f"{path}: {directive['name']} is already defined", line, number)
        defined[directive["name"]] = directive["text"].split("//")[0].strip()
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.stdout.write(read_entry_source(Path(sys.argv[1])))
