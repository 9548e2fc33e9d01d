"""The process around a command: its standard streams, its signals, its memory.

A command may find a standard stream closed, full, or without a reader, may be interrupted at
any moment, and may be short of memory. None of this may end in a traceback.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from contextlib import suppress

from ...core.errors import DynftraceError

NEEDED = 512 << 20
"""Bytes of address space that a machine of two vCPUs needs, with the libraries around it."""


def die_of_interrupts() -> None:
    """Let ctrl+c end the process at once, as it ends a program in C.

    Python's handler raises `KeyboardInterrupt` anywhere: within an import, a callback of the
    emulator, or the end of the interpreter, each of which prints a traceback. Code that has
    something to restore installs a handler of its own. An ignored signal stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def open_streams() -> None:
    """Replace standard streams that are closed, so that their numbers are not used for files.

    A closed stdin reads as empty and a closed stderr loses what is written to it. A write to a
    closed stdout fails with EBADF, so that a command whose output is lost does not succeed.
    """
    for name, flags in (("stdin", os.O_RDONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            # The lowest free number is that of the closed stream.
            descriptor = os.open(os.devnull, flags)
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(descriptor, mode, encoding="utf-8"))  # noqa: SIM115


def be_lenient() -> None:
    """Let stdout and stderr accept any text, whatever their encoding."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            utf8 = stream.encoding.lower().replace("-", "") == "utf8"
            stream.reconfigure(errors="surrogateescape" if utf8 else "backslashreplace")


def give_up(stream_name: str) -> None:
    """Discard what `stdout` or `stderr` still holds: the interpreter must not flush it on exit."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, getattr(sys, stream_name).fileno())
        os.close(null)


def complain(text: str) -> None:
    """Print `dynftrace: TEXT` to stderr, if possible."""
    try:
        print(f"dynftrace: {text}", file=sys.stderr, flush=True)
    except OSError:
        give_up("stderr")


def check_memory() -> None:
    """Raise `DynftraceError` if the limit of address space is too low for any machine.

    Below it, libraries fail in words of their own, and some end the process.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < NEEDED:
        raise DynftraceError(
            f"not enough memory: address space is limited to {limit >> 20} MB; raise the limit "
            f"to {NEEDED >> 20} MB or more (ulimit -v {NEEDED >> 10})"
        )
