"""Files are written as a whole."""

from __future__ import annotations

import os
import stat
import threading
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


def test_a_link_stays_and_its_target_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "picture.svg"
    target.write_text("old")
    target.chmod(0o604)
    link = tmp_path / "link"
    link.symlink_to("real/picture.svg")
    whole_file.write_whole(link, ["n", "ew"])
    assert os.readlink(link) == "real/picture.svg" and target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o604
    dangling = tmp_path / "dangling"
    dangling.symlink_to("real/made.svg")
    whole_file.write_whole(dangling, "new")
    assert dangling.is_symlink() and (tmp_path / "real" / "made.svg").read_text() == "new"


def test_a_fifo_and_a_device_are_written_to(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_text()))
    reader.start()
    whole_file.write_whole(fifo, "new")
    reader.join()
    assert read == ["new"] and fifo.is_fifo()
    # A folder in which a rename would fail: a device elsewhere would be lost.
    ours, theirs = os.openpty()
    whole_file.write_whole(Path(os.ttyname(theirs)), "new")
    assert os.read(ours, 10) == b"new"
    os.close(ours)
    os.close(theirs)


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "picture.svg"
    path.write_text("old")

    def pieces():
        yield "new"
        raise OSError(28, "No space left on device")

    for text in ("\ud800", pieces()):
        with pytest.raises(DynftraceError, match=r"picture.svg: "):
            whole_file.write_whole(path, text)
        assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_name_of_any_valid_length_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 255)
    whole_file.write_whole(path, "new")
    assert path.read_text() == "new"
