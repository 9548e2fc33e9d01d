"""Pipelines and filters do what the same line does in the host's shell."""

from __future__ import annotations

import os
import subprocess
from functools import cache

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
grep -A1 kfree
grep -n -B 1 -A2 vfs_read
grep -C2 y
grep -1 vfs
grep --color=auto -c sch
grep -e kfree -e 'x.y'
grep -x schedule
grep -m2 e
grep -H kfree
grep -h kfree
grep -l kfree
grep -L kfree
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
sort -k2 -nr -u
sort -k2nr
sort -k 2,2n -k 1,1r
sort -rk2
sort -k1.2
sort -bk2
sort -fu
sort -g
sort -s -k2
sort --reverse
sort -t : -k 2,2
sort | uniq -c
sort | uniq -d
uniq -u
cut -d : -f 2
cut -d ' ' -f 1,3-
cut -c 1-3,6
cut -d: -f1,3- -s
cut -d: -f1,3 --output-delimiter=,
head -n -0
head -c 5
head -c -3
tail -c 4
tail -c +3
tail --lines=1
wc -m
wc -L
uniq -ci
uniq -f1
cat -n
cat -
grep vfs | sort -r | head -1
sort -n | tail -n 3 | cut -d ' ' -f 1
"""


ODD = ("", "\n", "a\nb", "\n\na\n\n\na\n", "a\x0bb\x0cc\x85d\re\u2028f\n g\n-3 h\n+7\n1e3\n.5\n")
"""Nothing, no newline at the end, characters that end lines for Python alone, odd numbers."""


@pytest.mark.parametrize("filters", SAME_AS_THE_HOST.splitlines())
def test_a_filter_does_what_the_host_does(filters: str) -> None:
    given = "".join(f"{line}\n" for line in LINES)
    text = subprocess.run(["sh", "-c", given], capture_output=True, text=True, check=True).stdout
    _compare(filters, text.replace("'", ""))


@pytest.mark.parametrize("filters", SAME_AS_THE_HOST.splitlines())
def test_a_filter_does_it_with_odd_input(filters: str) -> None:
    for text in ODD:
        if "\u2028" not in text or not filters.startswith(("wc", "cut -c", "head -c", "tail -c")):
            _compare(filters, text)


def test_grep_says_by_its_status_that_a_file_is_missing() -> None:
    shell = Shell(opened())
    assert shell.execute("grep schedule nosuch available_filter_functions").status == 2
    assert shell.execute("grep -s schedule nosuch").error == ""


@cache
def _shell() -> Shell:
    return Shell(opened())


def _compare(filters: str, text: str) -> None:
    """Run the filters here and on the host, on the same input."""
    host = subprocess.run(
        ["sh", "-c", filters],
        input=text.encode(),
        capture_output=True,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    ours = _shell().execute(f"echo -n '{text}' | {filters}")
    assert (ours.output, ours.status, ours.error) == (
        host.stdout.decode(),
        host.returncode,
        host.stderr.decode(),
    )


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
        ("echo a | sort -k x", "sort: 'x' is not a key such as 2, 2n, 2,3 or 1.4"),
        ("echo a | sort -k 1.0", "sort: '1.0' is not a key such as 2, 2n, 2,3 or 1.4"),
        ("echo a | cut -f 3-1", "cut: '3-1' ends before it begins"),
        ("echo a | egrep a", "dynftrace: egrep: command not found: use grep -E"),
        ("echo a | head -c x", "head: invalid number of bytes: 'x'"),
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
