"""What the shell's language has is as in the host's shell; what it lacks has a sentence."""

from __future__ import annotations

import subprocess

import pytest

from dynftrace.core.session.session import Session
from dynftrace.core.shell.parser import Continuation, listed, parse
from dynftrace.core.shell.shell import Shell

from ...support.user import opened

SAME_AS_THE_HOST = r"""
if true; then echo a; fi
if false; then echo a; fi; echo $?
if false; then echo a; fi && echo b
if false; then echo a; elif true; then echo b; else echo c; fi
if false; then echo a; elif false; then echo b; else echo c; false; fi; echo $?
if echo x | grep -q x && true; then echo a; fi
for n in 1 2 3; do if [ $n -eq 2 ]; then echo two; else echo $n; fi; done
if true; then for n in 1 2; do echo $n; done; fi
if true; then if false; then echo a; else echo b; fi; fi
echo if then fi else
if [ a = b ] || [ 2 -gt 1 ]; then echo a; fi
true || echo a; echo $?
false; echo $?
test ! a = b; echo $?
[ ! -z a ]; echo $?
[ -n '' ]; echo $?
[ ]; echo $?
[ x ]; echo $?
[ -3 -lt 2 ] && echo a
A=1; B="x y"; echo $A "$B"
export C=3; echo ${C}d
echo a > /dev/null; echo $?
cat /nosuch 2> /dev/null; echo $?
cat /nosuch 2>/dev/null | wc -l
echo a 2>&1 | grep -c a
cat /nosuch > /dev/null 2>&1; echo $?
cat < /dev/null; echo $?
wc -l < /dev/null
echo a | cat
echo a2>/dev/null
echo 2 > /dev/null
echo -n a; echo b
echo -e 'a\nb\tc'
echo 'a\nb'
""".strip().splitlines()


@pytest.fixture(scope="module")
def session() -> Session:
    """One machine, which no test here changes."""
    return opened("x86_64")


@pytest.mark.parametrize("typed", SAME_AS_THE_HOST)
def test_it_is_what_the_host_does(session: Session, typed: str) -> None:
    shown = Shell(session).execute(typed)
    bash = subprocess.run(["bash", "-c", typed], capture_output=True, text=True, timeout=60)
    assert (shown.output, shown.status, shown.error) == (bash.stdout, bash.returncode, bash.stderr)
    assert not shown.changed


@pytest.mark.parametrize("typed", SAME_AS_THE_HOST)
def test_it_can_be_typed_as_it_is_shown(typed: str) -> None:
    steps = parse(typed)
    assert parse(listed(steps)) == steps


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("echo $$ > set_ftrace_pid", "'$$': this shell is not a task of the guest"),
        ("echo $(cat trace)", "'$(': commands inside words are not supported"),
        ('echo "`cat trace`"', "'`': commands inside words are not supported"),
        ("echo 0>tracing_on", "'0>' redirects file descriptor 0: put a blank before '>'"),
        ("cat trace_pipe &", "'&' unexpected: no command can run in the background"),
        ("(echo a)", "'(' unexpected: subshells are not supported"),
        ("while true; do ls; done", "'while': loops with a condition are not supported: use `for`"),
        ("! true", "'!': not supported: use `||`, or test ! CONDITION"),
        ("if true; then echo a; fi | cat", "`if` cannot be redirected or part of a pipeline"),
        ("if true; fi", "'fi' unexpected"),
        ("if true; then echo a; else fi", "'fi' unexpected"),
        ("then", "'then' unexpected"),
        ("sudo cat trace", "sudo: command not found: every command already runs as root"),
        ("grpe trace", "grpe: command not found: did you mean grep?"),
        ("cat trace > /tmp/x", "No such file or directory: the shell only writes to tracefs"),
        ("cat trace 2> errors", "errors: errors can only go to /dev/null or &1"),
        ("[ -f trace", "[: missing ']'\n"),
        ("test a b", "test: 'a b' is not a condition\n"),
        ("A=1 cat trace", "A=1: command not found"),
    ],
)
def test_a_missing_feature_has_a_sentence(session: Session, typed: str, sentence: str) -> None:
    outcome = Shell(session).execute(typed)
    assert sentence in outcome.error
    assert outcome.status and not outcome.output


def test_conditions_on_files(session: Session) -> None:
    shell = Shell(session)
    for condition, holds in {
        "-f trace": True,
        "-f events": False,
        "-d events": True,
        "-e nosuch": False,
        "-e /proc/sys": True,
        "! -d trace": True,
    }.items():
        assert shell.execute(f"test {condition}").status == int(not holds), condition
    assert shell.execute("cd events; [ -e enable ] && cat < enable").output == "0\n"


@pytest.mark.parametrize(
    ("lines", "more"),
    [
        (["if true\n"], True),
        (["if true; then\n", "echo fi\n"], True),
        (["if true; then\n", "ls; else ls\n", "fi\n"], False),
        (["echo if\n"], False),
    ],
)
def test_an_if_continues_until_its_fi(lines: list[str], more: bool) -> None:
    unfinished = Continuation()
    assert [unfinished.add(line) for line in lines][-1] is more
