"""Pipelines and filters do what the same line does in the host's shell."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from dynftrace.core.shell.shell import Shell

from ...support.user import opened

LINES = [
    *(f"echo {word}" for word in ("kfree", "schedule", "vfs_read", "vfs_write", "schedule")),
    *(
        "echo 'a:b:c'",
        "echo '10 x.y'",
        "echo '9 x+y'",
        "echo '  indented (text)'",
        "echo 'a b c d'",
    ),
]
SAME_AS_THE_HOST = """\
head -n 3
head -2
head -n -8
tail -n 2
tail -n +9
grep sch
grep -c 'vfs_\\(read\\|write\\)'
grep -E 'vfs_(read|write)'
grep '(text)'
grep -n 'x.y'
grep -F 'x.y'
grep -v e
grep -o 'vfs_[a-z]*'
grep -iw SCHEDULE
grep '^[[:space:]]'
grep '\\<x'
grep nothing
wc
wc -l
sort
sort -r
sort -nr
sort -u
sort -k 2
sort -t : -k 2,2
sort | uniq -c
sort | uniq -d
uniq -u
cut -d : -f 2
cut -d ' ' -f 1,3-
cut -c 1-3,6
grep vfs | sort -r | head -1
sort -n | tail -n 3 | cut -d ' ' -f 1
"""


@pytest.mark.parametrize("filters", SAME_AS_THE_HOST.splitlines())
def test_a_filter_does_what_the_host_does(filters: str, tmp_path: Path) -> None:
    given = "".join(f"{line}\n" for line in LINES)
    text = subprocess.run(["sh", "-c", given], capture_output=True, text=True, check=True).stdout
    host = subprocess.run(
        ["sh", "-c", filters],
        input=text,
        capture_output=True,
        text=True,
        env={**os.environ, "LC_ALL": "C"},
    )
    quoted = text.replace("'", "")
    ours = Shell(opened()).execute(f"echo -n '{quoted}' | {filters}")
    assert (ours.output, ours.status, ours.error) == (host.stdout, host.returncode, host.stderr)


def test_tee_writes_files_of_the_tree_and_is_replayed() -> None:
    session = opened()
    shell = Shell(session)
    line = "grep vfs_r available_filter_functions | tee set_ftrace_filter"
    assert shell.execute(line).status == 0
    assert shell.execute("cat set_ftrace_filter | wc -l; cat set_ftrace_filter").output == (
        "1\nvfs_read\n"
    )
    assert session.journal.actions == (line,)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("head", "head: nothing to read: give a FILE, or use COMMAND | head"),
        ("tee trace", "tee: nothing to read: use COMMAND | tee FILE"),
        ("echo a | grep '('", None),
        ("echo a | grep -E '('", "grep: not a regular expression: "),
        ("head nosuch", "head: nosuch: No such file or directory"),
        ("echo a | tee nosuch", "tee: nosuch: No such file or directory"),
        ("echo a | cut -f 0", "cut: '0' is not a range such as 2, 2-4, 2- or -4"),
        ("echo a | sort -k x", "sort: the key must be a number, not 'x'"),
        ("echo a | head -n x", "head: invalid number of lines: 'x'"),
        ("echo a | wc -z", "wc: option -z not recognized"),
        (f"echo {'a' * 40}b | grep -E '(a|a)*(a|a)*c'", None),
        (f"echo {'a' * 60} | grep -E '(a*)*(a*)*(a*)*b|(x+x+)+y'", None),
    ],
)
def test_mistakes_are_one_sentence(line: str, error: str | None) -> None:
    outcome = Shell(opened()).execute(line)
    assert outcome.status
    if error is not None:
        assert outcome.error.startswith(error)


def test_a_loop_runs_its_body_for_each_word() -> None:
    shell = Shell(opened())
    text = "for f in vfs_read kfree; do\necho $f >> set_ftrace_filter\ndone; cat set_ftrace_filter"
    assert shell.execute(text).output == "kfree\nvfs_read\n"
    text = "for a in 1 2; do for b in x '$a'; do echo \"$a${b}-$?\" $c; done; done"
    assert shell.execute(text).output == "1x-0 $c\n1$a-0 $c\n2x-0 $c\n2$a-0 $c\n"
    assert shell.execute("cat nosuch; echo $?").output == "1\n"
    assert shell.execute("cat nosuch || echo no && echo yes").output == "no\nyes\n"
