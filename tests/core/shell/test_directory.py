"""cd, pwd, mkdir and rmdir: relative paths begin at the current directory."""

from __future__ import annotations

import pytest

from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell

from ...support.user import opened

ROOT = "/sys/kernel/tracing"


@pytest.fixture(scope="module")
def session() -> Session:
    """One machine: the tests change its current directory and little else."""
    return opened("x86_64")


@pytest.fixture
def shell(session: Session) -> Shell:
    """A shell at the root of tracefs."""
    return Shell(session)


@pytest.mark.parametrize(
    ("typed", "where"),
    [
        ("cd", ROOT),
        ("cd /", ROOT),
        ("cd /sys/kernel/debug/tracing/", ROOT),
        ("cd events", f"{ROOT}/events"),
        ("cd per_cpu/cpu0/; cd ../cpu1", f"{ROOT}/per_cpu/cpu1"),
        ("cd ./events/..", ROOT),
        ("cd ..", ROOT),
        ("cd /proc/sys", "/proc/sys"),
        ("cd per_cpu; cd /proc; cd - > trace", f"{ROOT}/per_cpu"),
        ("cd events | cat", ROOT),
        ("for d in per_cpu cpu1; do cd $d; done", f"{ROOT}/per_cpu/cpu1"),
    ],
)
def test_pwd_shows_where_cd_went(shell: Shell, typed: str, where: str) -> None:
    assert shell.execute(f"{typed}; pwd").output == where + "\n"


@pytest.mark.parametrize(
    "path", ["cat ../../trace_clock", "cat stats ../cpu0/stats", "grep -c : st*", "head -1 stats"]
)
def test_files_are_those_of_the_directory(shell: Shell, path: str) -> None:
    below = shell.execute(f"cd per_cpu/cpu0; {path}")
    names = ("../../trace_clock", "stats", "../cpu0/stats", "st*")
    absolute = " ".join(
        f"{ROOT}/per_cpu/cpu0/{word}" if word in names else word for word in path.split()
    )
    assert below.output and not below.error
    assert below.output == Shell(shell.session).execute(absolute).output


def test_ls_and_completion_look_into_it(shell: Shell) -> None:
    assert shell.execute("cd per_cpu; ls").output == "cpu0\ncpu1\n"
    assert shell.execute("ls -d; ls -a").output == ".\n.\n..\ncpu0\ncpu1\n"
    assert shell.execute("ls -F").output == "cpu0/\ncpu1/\n"
    assert shell.complete("cat cpu1/st").words == ("cpu1/stats",)


def test_redirections_and_tee_write_into_it(shell: Shell) -> None:
    root = shell.session.boot.tracefs
    done = shell.execute("cd options; echo 1 > sym-offset")
    assert (done.error, root.read("options/sym-offset")) == ("", "1\n")
    assert [each.path for each in done.effects if hasattr(each, "path")] == ["options/sym-offset"]
    assert shell.execute("echo 0 | tee sym-offset").error == ""
    assert root.read("options/sym-offset") == "0\n"


@pytest.mark.parametrize(
    ("typed", "error"),
    [
        ("cd nosuch", "cd: nosuch: No such file or directory\n"),
        ("cd trace", "cd: trace: Not a directory\n"),
        ("cd -", "cd: OLDPWD not set\n"),
        ("cat sched", "cat: sched: No such file or directory\n"),
        ("mkdir foo", "mkdir: cannot create directory 'foo': Operation not permitted\n"),
        ("mkdir events", "mkdir: cannot create directory 'events': File exists\n"),
        ("mkdir a/b", "mkdir: cannot create directory 'a/b': No such file or directory\n"),
        ("mkdir trace/b", "mkdir: cannot create directory 'trace/b': Not a directory\n"),
        ("rmdir events", "rmdir: failed to remove 'events': Operation not permitted\n"),
        ("rmdir trace", "rmdir: failed to remove 'trace': Not a directory\n"),
        ("rmdir foo", "rmdir: failed to remove 'foo': No such file or directory\n"),
    ],
)
def test_errors_are_those_of_bash_and_coreutils(shell: Shell, typed: str, error: str) -> None:
    outcome = shell.execute(typed)
    assert (outcome.error, outcome.status, outcome.output) == (error, 1, "")


def test_the_journal_replays_from_anywhere() -> None:
    shell = Shell(opened("x86_64"))
    shell.execute("cd options")
    assert not shell.session.journal.actions
    shell.execute("echo 1 > sym-offset; cd /proc; run syscalls")
    assert shell.session.boot.tracefs.read("options/sym-offset") == "1\n"
    # Undone and done again, in a shell that is elsewhere.
    assert not shell.execute("back").error
    assert shell.session.boot.tracefs.read("options/sym-offset") == "0\n"
    assert not shell.execute("redo").error
    assert shell.session.boot.tracefs.read("options/sym-offset") == "1\n"
    assert str(shell.directory) == "/proc"
    actions, now = shell.session.journal.actions, shell.session.now
    other = Shell(opened("x86_64"))
    other.execute("cd events")
    for action in actions:
        assert isinstance(action, str)
        assert not other.repeat(action).error
    assert str(other.directory) == f"{ROOT}/events"
    assert other.session.now == now
    assert other.session.journal.actions == actions


def test_a_removed_directory_is_left() -> None:
    shell = Shell(opened("x86_64"))
    shell.directory.path = "per_cpu/cpu7"
    lost = shell.execute("cat trace")
    assert lost.error == (
        f"dynftrace: {ROOT}/per_cpu/cpu7 has been removed: the current directory is {ROOT}\n"
    )
    assert (lost.status, shell.execute("pwd").output) == (1, f"{ROOT}\n")


def test_commands_that_the_user_did_not_type_begin_at_the_root(shell: Shell) -> None:
    shell.execute("cd events")
    assert shell.execute("echo nop > current_tracer", from_root=True).status == 0
    assert shell.execute("echo nop > current_tracer").status == 1
    assert shell.execute("pwd").output == f"{ROOT}/events\n"
