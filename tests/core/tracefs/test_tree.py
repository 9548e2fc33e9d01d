"""Paths, and errors when opening, reading and writing."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable

import pytest

from dynftrace.core.errors import TracefsError
from dynftrace.core.tracefs.tree import Directory, File, Tracefs


class Note(File):
    """A file that keeps what is written to it."""

    mode = 0o644

    def __init__(self) -> None:
        self.text = "old"

    def read(self) -> str:
        return self.text

    def write(self, text: str) -> None:
        self.text += text

    def truncate(self) -> None:
        self.text = ""


class Fixed(File):
    """A file that can only be read."""

    def read(self) -> str:
        return "fixed\n"


class Sink(File):
    """A file that can only be written."""

    def write(self, text: str) -> None:
        pass


@pytest.fixture
def tree() -> Tracefs:
    below = Directory({"fixed": Fixed(), "sink": Sink()})
    return Tracefs(Directory({"note": Note(), "below": below}), threading.RLock())


@pytest.mark.parametrize(
    "path", ["note", "/note", "./note", "below/../note", "//note", "/sys/kernel/tracing/note"]
)
def test_paths_are_resolved(tree: Tracefs, path: str) -> None:
    assert tree.read(path) == "old"


def test_a_write_truncates_and_an_append_does_not(tree: Tracefs) -> None:
    tree.write("note", "a")
    assert tree.read("note") == "a"
    tree.write("note", "b", append=True)
    assert tree.read("note") == "ab"


@pytest.mark.parametrize(
    ("act", "number"),
    [
        (lambda tree: tree.read("gone"), errno.ENOENT),
        (lambda tree: tree.write("gone", "x"), errno.ENOENT),
        (lambda tree: tree.read("gone/fixed"), errno.ENOENT),
        (lambda tree: tree.read("below"), errno.EISDIR),
        (lambda tree: tree.write("", "x"), errno.EISDIR),
        (lambda tree: tree.read("note/deeper"), errno.ENOTDIR),
        (lambda tree: tree.write("below/fixed", "x"), errno.EINVAL),
        (lambda tree: tree.read("below/sink"), errno.EINVAL),
        (lambda tree: tree.listdir("note"), errno.ENOTDIR),
        (lambda tree: tree.listdir("gone"), errno.ENOENT),
    ],
)
def test_errors_are_the_kernels(
    tree: Tracefs, act: Callable[[Tracefs], object], number: int
) -> None:
    with pytest.raises(TracefsError) as caught:
        act(tree)
    assert caught.value.errno == number


def test_directories_are_listed(tree: Tracefs) -> None:
    assert tree.listdir() == ["below", "note"]
    assert tree.listdir("below") == ["fixed", "sink"]
    assert tree.is_dir("below") and not tree.is_dir("note") and not tree.is_dir("gone")
    assert tree.exists("below/fixed") and not tree.exists("below/gone")
