"""The preview of a command line, compared with what the command then does."""

from __future__ import annotations

import pytest

from dynftrace.core.session.session import Session
from dynftrace.core.shell.preview import preview
from dynftrace.core.shell.shell import Shell


@pytest.fixture
def shell(session: Session) -> Shell:
    return Shell(session)


@pytest.mark.parametrize(
    "words", ["schedule", "'vfs_*'", "'*sched*' '!sched_*'", "17 18", "':mod:*'", "'!schedule'"]
)
@pytest.mark.parametrize("to", [">", ">>"])
def test_the_preview_counts_what_the_write_chooses(shell: Shell, words: str, to: str) -> None:
    shell.execute("echo do_exit schedule > set_ftrace_filter")
    line = f"echo {words} {to} set_ftrace_filter"
    said = preview(shell, line)
    assert not shell.execute(line).error
    chosen = [
        each.split()[0]
        for each in shell.execute("cat set_ftrace_filter").output.splitlines()
        if not each.startswith("#") and ":" not in each
    ]
    count, _, names = said.partition(f" of {len(shell.session.function_names())} functions")
    assert int(count) == len(chosen)
    assert [*filter(None, names.removeprefix(": ").split())][:20] == chosen[:20]


def test_a_preview_changes_nothing(shell: Shell) -> None:
    before = shell.execute("cat set_ftrace_filter").output
    for line in ("echo schedule > set_ftrace_filter", "echo x >", "reboot", "run syscalls"):
        preview(shell, line)
    assert shell.execute("cat set_ftrace_filter").output == before
    assert not shell.session.journal.actions


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", ""),
        ("ec", ""),
        ("nonsense x", "nonsense: command not found"),
        ("echo 'vfs_", ""),
        ("echo vfs_* >", ""),
        ("echo no_such > set_ftrace_filter", "no function matches 'no_such'"),
        ("echo schedule", "1 of {all} functions: schedule"),
        (
            "cat trace | head",
            "head [-n N|-c N] [-q] [FILE…]: show the first 10 lines, or the first N",
        ),
    ],
)
def test_the_preview_is_one_line(shell: Shell, line: str, said: str) -> None:
    count = len(shell.execute("cat available_filter_functions").output.splitlines())
    assert preview(shell, line) == said.replace("{all}", str(count))


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("echo", "echo"),
        ("echo nop > current_tracer", "echo"),
        ("echo 9999 > set_ftrace_filter", "echo"),
        ("run syscalls; cat trace", "cat"),
    ],
)
def test_the_default_preview_is_the_synopsis(shell: Shell, line: str, name: str) -> None:
    command = shell.commands[name]
    assert preview(shell, line) == f"{command.synopsis}: {command.summary}"
