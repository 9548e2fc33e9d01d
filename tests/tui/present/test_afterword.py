"""What is said after a command: the next key, what was lost, why it failed."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from dynftrace.core.shell.outcome import (
    Effect,
    Loaded,
    NotPatched,
    NotWritten,
    RanWorkload,
    Rebooted,
    WroteFile,
)
from dynftrace.tui.present.afterword import afterword, failure
from dynftrace.tui.present.view import Done, Status

QUIET, FULL = Status("x86_64"), Status("x86_64", tracer="function", events=12)


@pytest.mark.parametrize(
    ("effect", "before", "word"),
    [
        (WroteFile("current_tracer", "function\n"), QUIET, "w runs a workload"),
        (WroteFile("current_tracer", "nop\n"), FULL, "b brings it back"),
        (WroteFile("current_tracer", "nop\n"), QUIET, ""),
        (WroteFile("trace", ""), FULL, "b brings it back"),
        (Rebooted(), FULL, "b brings the old one back"),
        (Loaded("usbcore"), QUIET, ":mod:usbcore"),
        (RanWorkload("syscalls"), QUIET, "t switches one on"),
        (RanWorkload("syscalls"), FULL, ""),
        (WroteFile("set_ftrace_filter", "schedule\n"), QUIET, ""),
    ],
)
def test_a_command_that_worked(effect: Effect, before: Status, word: str) -> None:
    said = afterword(Done("…", effects=(effect,)), before)
    assert word in said and bool(word) == bool(said)


def test_a_line_of_commands_counts_as_a_whole() -> None:
    traced = WroteFile("current_tracer", "function\n"), RanWorkload("syscalls")
    assert afterword(Done("…", effects=traced), QUIET) == ""
    off = WroteFile("current_tracer", "nop\n"), RanWorkload("syscalls")
    assert "no tracer was on" in afterword(Done("…", effects=off), FULL)


def test_tracing_a_kernel_without_a_boot_names_call() -> None:
    done = Done("…", effects=(WroteFile("current_tracer", "function\n"),))
    assert ":call calls a function" in afterword(done, Status("x86_64", boots=False))


def test_a_command_that_failed() -> None:
    off = Status("x86_64", ftrace_off=True)
    on = Done("…", effects=(NotWritten("current_tracer", errno.ENODEV, True),), status=1)
    assert "R reboots" in afterword(on, off)
    assert afterword(on, QUIET) == ""
    unknown = NotWritten("set_ftrace_filter", errno.EINVAL, True)
    assert afterword(Done("…", effects=(unknown,), status=1), QUIET) == (
        "no such function; the filter is now empty"
    )
    added = replace(unknown, emptied=False)
    assert afterword(Done("…", effects=(added,), status=1), QUIET) == "no such function"
    half = Done("…", effects=(Rebooted(),), status=1)
    assert afterword(half, FULL) == ""


def test_a_text_about_a_refusal_is_none() -> None:
    """Only effects count: a message that is the subject of a command has the same words."""
    text = "ftrace failed to modify [<ffffffff81002c40>] schedule+0x0/0x80: Invalid argument"
    done = Done(f"echo '{text}' > set_ftrace_filter", error=f"{text}\n", status=1)
    assert (failure(done), afterword(done, QUIET)) == (done.error, "")


def test_a_refused_patch_is_named_in_a_short_line() -> None:
    effects = (NotPatched(0xFFFF_FFFF_8100_2C40, "schedule"),)
    bug = Done("echo function > current_tracer", error="…", effects=effects, status=1)
    assert failure(bug) == "ftrace refused to patch schedule: R reboots, b undoes"
    other = Done("nosuch", error="nosuch: unknown command\n", status=1)
    assert failure(other) == other.error
