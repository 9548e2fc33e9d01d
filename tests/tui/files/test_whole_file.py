"""Files are written as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynftrace.core.errors import DynftraceError
from dynftrace.tui.files import whole_file


def test_an_output_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "picture.svg"
    path.write_text("old")
    whole_file.write_whole(path, "new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(DynftraceError, match="No such file"):
        whole_file.write_whole(tmp_path / "gone" / "picture.svg", "new")
