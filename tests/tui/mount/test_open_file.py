"""A file as a client has it open: pieces, split words, and pipes."""

from __future__ import annotations

import pytest

from dynftrace.core.errors import TracefsError
from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell
from dynftrace.core.tracefs.tree import File
from dynftrace.tui.mount.ctl import Ctl
from dynftrace.tui.mount.open_file import OpenFile


def opened(session: Session, path: str, *, write: bool = False, truncate: bool = False) -> OpenFile:
    node = session.boot.tracefs.node(path)
    assert isinstance(node, File)
    return OpenFile(node, write=write, truncate=truncate)


def test_pieces_are_of_the_content_at_the_start(session: Session) -> None:
    file = opened(session, "set_ftrace_filter")
    whole = session.boot.tracefs.read("set_ftrace_filter").encode()
    assert file.read(5, 0) == whole[:5]
    session.boot.tracefs.write("set_ftrace_filter", "schedule\n")
    assert file.read(5, 5) == whole[5:10]
    assert file.read(9, 0) == b"schedule\n"
    assert file.read(9, 9) == b""


def test_a_word_continues_in_the_next_write(session: Session) -> None:
    file = opened(session, "set_ftrace_filter", write=True, truncate=True)
    assert file.write(b"sche") == 4
    file.write(b"dule vfs_r")
    file.write(b"ead")
    file.close()
    assert session.boot.tracefs.read("set_ftrace_filter") == "schedule\nvfs_read\n"


def test_a_pipe_waits_while_tracing_is_on_and_ends_after_it(session: Session) -> None:
    tree = session.boot.tracefs
    pipe = opened(session, "trace_pipe")
    assert not pipe.readable
    assert pipe.read(100, 0) is None
    tree.write("trace_marker", "one\n")
    assert pipe.readable
    line = b""
    while piece := pipe.read(7, 0):
        line += piece
    assert line.endswith(b"tracing_mark_write: one\n")
    assert pipe.read(7, 0) is None
    tree.write("tracing_on", "0\n")
    assert pipe.read(7, 0) == b""
    assert opened(session, "trace_pipe").read(7, 0) is None, "a new reader waits for the first"


def test_splice_gets_whole_pages_only(session: Session) -> None:
    tree = session.boot.tracefs
    pipe = opened(session, "per_cpu/cpu0/trace_pipe_raw")
    tree.write("trace_marker", "one\n")
    assert pipe.in_pages
    assert pipe.splice(4096) is None
    Shell(session).execute("echo function > current_tracer; run syscalls")
    first, second = pipe.splice(4096), pipe.splice(4096)
    assert first is not None and second is not None
    assert len(first) == len(second) == 4096 and first != second
    while pipe.splice(4096):
        pass
    assert pipe.read(4096, 0), "read(2) takes the page that is written to, too"


def test_ctl_executes_lines(session: Session) -> None:
    ctl = Ctl(session)
    with ctl.open(write=True) as file:
        file.write("echo 1; ec")
        assert ctl.read() == ""
        file.write("ho 2\n")
    assert ctl.read() == "1\n2\n"
    with ctl.open(write=True) as file, pytest.raises(TracefsError, match="Invalid argument"):
        file.write("nosuch\n")
    assert ctl.read() == "dynftrace: nosuch: command not found\n"
    with pytest.raises(TracefsError):
        ctl.execute("back")
    assert "no history" in ctl.read()
    assert Shell(session).execute("back").error != ctl.read()
