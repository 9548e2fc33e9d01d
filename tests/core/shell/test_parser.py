"""The shell's grammar, compared with handmade tables and with the host's sh."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynftrace.core.ftrace.filter import Glob, NameTable
from dynftrace.core.shell.parser import Continuation, Join, Pipeline, parse, simple_commands
from dynftrace.core.shell.words import ShellSyntaxError


def words(text: str) -> list[list[str]]:
    return [[word.text for word in command.words] for command in simple_commands(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("cat trace", [["cat", "trace"]]),
        ("  cat \t trace  ;ls", [["cat", "trace"], ["ls"]]),
        ("a\nb\n\nc", [["a"], ["b"], ["c"]]),
        ("a # not b\nc#d", [["a"], ["c#d"]]),
        ("# only a comment", []),
        ("echo 'a  b;c' \"d  $e\"", [["echo", "a  b;c", "d  $e"]]),
        (r"echo a\ b \; \\ \'", [["echo", "a b", ";", "\\", "'"]]),
        (r'echo "a\"b" "c\d" "e\\f"', [["echo", 'a"b', r"c\d", r"e\f"]]),
        ("echo a'b'\"c\"d", [["echo", "abcd"]]),
        ("echo '' \"\"", [["echo", "", ""]]),
        ("echo a\\\nb", [["echo", "ab"]]),
        ("echo 'a\nb'", [["echo", "a\nb"]]),
        ("a;", [["a"]]),
        ("a &&\n\n b", [["a"], ["b"]]),
        ("a | b |\n c; d", [["a"], ["b"], ["c"], ["d"]]),
        ("for x in 1 2; do a $x; done", [["a", "$x"]]),
        ("for x in\ndo for y in do; do a\nb; done; done; c", [["a"], ["b"], ["c"]]),
        ("echo for; 'for' do done", [["echo", "for"], ["for", "do", "done"]]),
    ],
)
def test_a_line_is_split_into_words(text: str, expected: list[list[str]]) -> None:
    assert words(text) == expected


def test_redirections_may_be_anywhere() -> None:
    (first, second, third) = simple_commands("echo a>f; >> g echo b; > h")
    assert [(r.path.text, r.append) for r in first.redirections] == [("f", False)]
    assert [w.text for w in second.words] == ["echo", "b"]
    assert [(r.path.text, r.append) for r in second.redirections] == [("g", True)]
    assert third.words == ()


def test_commands_are_joined_by_semicolons_and_operators() -> None:
    joins = [command.join for command in parse("a && b || c; d\ne")]
    assert joins == [Join.ALWAYS, Join.AND, Join.OR, Join.ALWAYS, Join.ALWAYS]


@pytest.mark.parametrize(
    ("text", "reason", "incomplete"),
    [
        ("echo 'a", "unterminated quoted string", True),
        ('echo "a', "unterminated quoted string", True),
        ("; a", "';' unexpected", False),
        ("a ;; b", "';' unexpected", False),
        ("a | | b", "'|' unexpected", False),
        ("| a", "'|' unexpected", False),
        ("a |", "no command after '|'", True),
        ("done", "'done' unexpected", False),
        ("a; do b", "'do' unexpected", False),
        ("for 1 in a; do b; done", "'1' unexpected", False),
        ("for x; do b; done", "';' unexpected", False),
        ("for x in a; do done", "'done' unexpected", False),
        ("for x in a; do b", "'done' is missing", True),
        ("for x in a | b; do c; done", "'|' unexpected", False),
        ("a | for x in b; do c; done", "a loop cannot be part of a pipeline", False),
        ("for x in a; do b; done > f", "a loop cannot be redirected", False),
        ("for x in a; do " * 17, "loops are nested more than 16 deep", False),
        ("a &", "'&' unexpected", False),
        ("cat << trace", "'<' unexpected", False),
        ("(a)", "'(' unexpected", False),
        ("echo a >", "no file name after '>'", False),
        ("echo a > ; b", "';' unexpected", False),
        ("a &&", "no command after '&&'", True),
    ],
)
def test_syntax_errors_are_refused(text: str, reason: str, incomplete: bool) -> None:
    with pytest.raises(ShellSyntaxError, match="syntax error") as caught:
        parse(text)
    assert reason in str(caught.value)
    assert caught.value.incomplete is incomplete


def test_instructions_need_parentheses() -> None:
    (command,) = simple_commands("poke schedule ld r2,40(r1)")
    assert [word.text for word in command.words] == ["poke", "schedule", "ld", "r2,40(r1)"]


def test_quoted_glob_characters_are_literal() -> None:
    (command,) = simple_commands(r"""ls per_cpu/cpu* 'a*' \? "[x]" """)
    globs = [word.is_glob for word in command.words]
    assert globs == [False, True, False, False, False]
    names = NameTable(["a*", "ab"])
    (row,) = names.match(Glob.parse(command.words[2].pattern))
    assert row == 0


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs sh on the host")
@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="ab '\"\\\t;#", max_size=12))
def test_words_are_split_as_by_sh(text: str) -> None:
    """Any line that the parser accepts gives the same words as the host's shell."""
    try:
        commands = simple_commands(f"printf '<%s>' x {text}")
    except ShellSyntaxError:
        return
    first = [word.text for word in commands[0].words[2:]]
    if len(commands) > 1:
        return
    run = subprocess.run(
        ["sh", "-c", f"printf '<%s>' x {text}"], capture_output=True, text=True, check=True
    )
    assert run.stdout == "".join(f"<{word}>" for word in first)


@given(st.text(alphabet="ab*?[]-'\"\\ \n;#>&|()$!é", max_size=14))
def test_a_command_survives_formatting_and_parsing(text: str) -> None:
    try:
        commands = parse(text)
    except ShellSyntaxError:
        return
    for command in commands:
        assert isinstance(command, Pipeline)
        assert parse(str(command)) == (replace(command, join=Join.ALWAYS),)


@pytest.mark.parametrize(
    "text",
    [
        "echo 'vfs_*' > set_ftrace_filter",
        "echo '!schedule' >> set_ftrace_filter",
        "cat per_cpu/cpu*/trace",
        "echo 'a b'[ab]'*' '' '#x'",
        "echo 'f:read vfs_read $arg1' > dynamic_events",
    ],
)
def test_a_command_is_formatted_as_typed(text: str) -> None:
    assert [str(command) for command in parse(text)] == [text]


LOOP = ("; for x in a; do b; ", "\ndone\n", "; do\n", "; done ")


def test_a_command_continues_as_long_as_it_cannot_be_parsed() -> None:
    pieces = ("a", "'", '"', "\\", "#", "&&", "||", "|", ";", " ", "\n", *LOOP)
    chance = random.Random(5)
    seen = {True: 0, False: 0}
    for _ in range(6000):
        whole = "a" + "".join(chance.choices(pieces, k=chance.randint(1, 7))) + "\n"
        try:
            parse(whole)
        except ShellSyntaxError as error:
            if not error.incomplete:
                continue
            expected = True
        else:
            expected = False
        if whole.endswith("\\\n"):
            continue  # continues, unless it ends a comment or a quote
        seen[expected] += 1
        unfinished = Continuation()
        got = [unfinished.add(line) for line in whole.splitlines(keepends=True)][-1]
        assert got == expected, repr(whole)
    assert min(seen.values()) > 100


def test_a_backslash_at_the_end_of_a_line_continues_the_command_but_not_a_comment() -> None:
    assert Continuation().add("echo a \\\n") and not Continuation().add("# a \\\n")


def test_an_unclosed_quote_reads_each_line_once() -> None:
    lines = ["echo 'a\n", *["it is b\n"] * 20_000]
    unfinished = Continuation()
    begin = time.process_time()
    assert all(unfinished.add(line) for line in lines)
    assert time.process_time() - begin < 2  # reading all lines again for each takes minutes
    assert not unfinished.add("c'\n")
