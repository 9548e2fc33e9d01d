"""Filter words and globs, compared with fnmatch and with handmade tables."""

from __future__ import annotations

import errno
import fnmatch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynftrace.core.errors import TracefsError
from dynftrace.core.ftrace.filter import (
    FTRACE_BUFF_MAX,
    FilterWord,
    FunctionNames,
    Glob,
    NameTable,
    parse_words,
    select,
)

NAMES = ["schedule", "do_sched", "vfs_read", "vfs_write", "usb_get_intf", "hub_probe", "a[b"]
MODULE = np.array([-1, -1, -1, -1, 0, 1, 1], np.int32)
FUNCTIONS = FunctionNames(NAMES, MODULE, ["usbcore", "usbhub"])


def chosen(text: str) -> list[str]:
    (word,) = parse_words(text)
    return [NAMES[row] for row in FUNCTIONS.select(word)]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("schedule", ["schedule"]),
        ("sched", []),
        ("sched*", ["schedule"]),
        ("*sched", ["do_sched"]),
        ("*sched*", ["schedule", "do_sched"]),
        ("vfs_*e", ["vfs_write"]),
        ("vfs_????", ["vfs_read"]),
        ("[uv]*", ["vfs_read", "vfs_write", "usb_get_intf"]),
        ("[!uv]*", ["schedule", "do_sched", "hub_probe", "a[b"]),
        ("*_[a-p]*", ["usb_get_intf", "hub_probe"]),
        ("a\\[b", ["a[b"]),
        ("a[b", ["a[b"]),
        ("SCHEDULE", []),
        ("*", NAMES),
        ("**", NAMES),
        ("sched\\", []),
        ("schedule\\", ["schedule"]),
        ("s*d*u*e", ["schedule"]),
        ("s*d*u*ee", []),
    ],
)
def test_a_pattern_chooses_functions(pattern: str, expected: list[str]) -> None:
    assert chosen(pattern) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("*:mod:usbcore", ["usb_get_intf"]),
        (":mod:usbhub", ["hub_probe", "a[b"]),
        ("*_*:mod:usb*", ["usb_get_intf", "hub_probe"]),
        ("hub_*:mod:usbcore", []),
        ("*:mod:*", ["usb_get_intf", "hub_probe", "a[b"]),
        ("*:mod:", ["usb_get_intf", "hub_probe", "a[b"]),
        ("*:mod:!usbhub", ["schedule", "do_sched", "vfs_read", "vfs_write", "usb_get_intf"]),
        ("*e*:mod:!*", ["schedule", "do_sched", "vfs_read", "vfs_write"]),
        ("*:mod:gone", []),
        ("3", ["vfs_read"]),
        ("0x4", ["vfs_write"]),
        ("010", None),
        ("07", ["a[b"]),
        ("0", None),
        ("8", None),
        ("2_0", None),
        ("1abc", None),
        ("schedule:traceoff", None),
        ("schedule:nonsense:3", None),
    ],
)
def test_a_word_chooses_functions_or_is_refused(word: str, expected: list[str] | None) -> None:
    if expected is None:
        with pytest.raises(TracefsError) as caught:
            chosen(word)
        assert caught.value.errno == errno.EINVAL
    else:
        assert chosen(word) == expected


def test_words_are_separated_by_any_white_space() -> None:
    words = parse_words(" schedule\tvfs_*\n!*:mod:usbcore  !3")
    assert [word.text for word in words] == ["schedule", "vfs_*", "!*:mod:usbcore", "!3"]
    assert [word.remove for word in words] == [False, False, True, True]
    assert words[2].module == "usbcore"
    assert words[3].index == 3
    assert parse_words(" \n") == ()


def test_commands_are_parsed_and_accepted_if_known() -> None:
    (word,) = parse_words("!vfs_*:stacktrace:5")
    assert word == FilterWord(
        "!vfs_*:stacktrace:5", True, "vfs_*", command="stacktrace", parameter="5"
    )
    assert list(FUNCTIONS.select(word, frozenset({"stacktrace"}))) == [2, 3]


def test_no_match_is_an_error_unless_the_module_is_not_loaded() -> None:
    with pytest.raises(TracefsError, match="Invalid argument"):
        select(FUNCTIONS, parse_words("nothing_*")[0])
    assert len(select(FUNCTIONS, parse_words("*:mod:later")[0])) == 0


def test_a_word_that_is_too_long_is_refused() -> None:
    with pytest.raises(TracefsError):
        parse_words("x" * FTRACE_BUFF_MAX)


def test_without_functions_nothing_matches() -> None:
    nothing = FunctionNames([], np.empty(0, np.int32), [])
    for text in ("*", "a*b*c", "abc", "[a]?", "*:mod:x"):
        assert len(nothing.select(parse_words(text)[0])) == 0


DOTTED = [".schedule", ".do_sched", "ftrace_stub", "..odd"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("schedule", [".schedule"]),
        (".schedule", [".schedule"]),
        ("sched*", [".schedule"]),
        (".sched*", [".schedule"]),
        ("*sched", [".do_sched"]),
        ("*.sched*", [".schedule"]),
        ("*.do_sched", [".do_sched"]),
        ("*.s*e", []),
        ("?schedule", []),
        ("[.]schedule", []),
        ("?chedule", [".schedule"]),
        ("f*", ["ftrace_stub"]),
        ("ftrace_stub", ["ftrace_stub"]),
        (".ftrace_stub", []),
        ("odd", []),
        (".odd", []),
        ("..odd", ["..odd"]),
        (".*", [".schedule", ".do_sched", "..odd"]),
        ("*", DOTTED),
        (".", []),
    ],
)
def test_a_code_prefix_is_optional_in_a_pattern(pattern: str, expected: list[str]) -> None:
    functions = FunctionNames(DOTTED, np.full(4, -1, np.int32), [], ".")
    (word,) = parse_words(pattern)
    assert [DOTTED[row] for row in functions.select(word)] == expected


name = st.text(alphabet="ab_c", max_size=6)


@given(names=st.lists(name, max_size=8), pattern=st.text(alphabet="ab_*?", max_size=7))
def test_globs_match_as_fnmatch_does(names: list[str], pattern: str) -> None:
    rows = NameTable(names).match(Glob.parse(pattern))
    assert list(rows) == [
        row for row, text in enumerate(names) if fnmatch.fnmatchcase(text, pattern)
    ]


@given(
    names=st.lists(st.text(alphabet="ab.", max_size=5), max_size=8),
    pattern=st.text("ab*?.", max_size=6),
)
def test_a_name_with_a_prefix_matches_as_in_the_kernel(names: list[str], pattern: str) -> None:
    """Compare with the kernel's two steps: remove the dot from the name, then match."""
    searched, glob = pattern, any(c in pattern.strip("*") for c in "*?")
    if not glob and pattern.strip("*") == pattern.removeprefix("*").removesuffix("*"):
        searched = pattern.removeprefix("*")
    stripped = [text[1:] if text[:1] == "." and searched[:1] != "." else text for text in names]
    rows = NameTable(names, ".").match(Glob.parse(pattern))
    assert list(rows) == [
        row for row, text in enumerate(stripped) if fnmatch.fnmatchcase(text, pattern)
    ]


members = st.text(alphabet="abc", min_size=1, max_size=3)
piece = st.one_of(
    st.sampled_from(["a", "b", "*", "?", "[a-b]", "[!c]"]), members.map(lambda text: f"[{text}]")
)


@given(names=st.lists(name, max_size=8), pieces=st.lists(piece, max_size=5))
def test_classes_match_as_fnmatch_does(names: list[str], pieces: list[str]) -> None:
    pattern = "".join(pieces)
    rows = NameTable(names).match(Glob.parse(pattern))
    assert list(rows) == [
        row for row, text in enumerate(names) if fnmatch.fnmatchcase(text, pattern)
    ]


@given(st.text(max_size=12))
def test_any_text_is_a_pattern_or_is_refused(pattern: str) -> None:
    rows = NameTable(NAMES).match(Glob.parse(pattern))
    assert all(0 <= row < len(NAMES) for row in rows)
