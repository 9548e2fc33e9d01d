"""entry.S with the included files of its family."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynftrace.core.errors import AssemblyError
from dynftrace.core.port.entry_source import read_entry_source


def test_an_included_file_is_inserted_with_its_words_replaced(tmp_path: Path) -> None:
    (tmp_path / "port").mkdir()
    (tmp_path / "shared.S").write_text("        LOAD $ra, BACK($sp)   # BACKWARDS\nMORE\n")
    path = tmp_path / "port" / "entry.S"
    path.write_text(
        '#define LOAD lw\n#define BACK 52 // bytes\n#define MORE\nBACK\n#include "../shared.S"\n'
    )
    assert read_entry_source(path) == "52\n        lw $ra, 52($sp)   # BACKWARDS\n\n\n"


def test_a_definition_applies_to_the_lines_after_it(tmp_path: Path) -> None:
    path = tmp_path / "entry.S"
    path.write_text("WORD\n#define WORD .long\nWORD\n")
    assert read_entry_source(path) == "WORD\n.long\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("#if 1", "unknown directive: #if 1"),
        ("#include <graph.S>", "unknown directive"),
        ("#define A1 4\n#define A1 8", "A1 is already defined"),
    ],
)
def test_an_unknown_directive_is_refused_with_its_line(
    tmp_path: Path, text: str, says: str
) -> None:
    path = tmp_path / "entry.S"
    path.write_text(f"nop\n{text}\n")
    with pytest.raises(AssemblyError, match=says) as caught:
        read_entry_source(path)
    assert caught.value.line == 1 + len(text.splitlines())


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    path = tmp_path / "entry.S"
    path.write_text('#include "graph.S"\n')
    with pytest.raises(FileNotFoundError):
        read_entry_source(path)
