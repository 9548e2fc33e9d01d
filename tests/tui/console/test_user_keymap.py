"""A keymap file: its changes, and its errors with their lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dynftrace.core.errors import UsageError
from dynftrace.tui.console import user_keymap
from dynftrace.tui.console.keymap import GROUPS


def test_a_keymap_file_changes_keys(tmp_path: Path) -> None:
    file = tmp_path / "keymap.toml"
    file.write_text('[keys]\nmain.run = "f6"\n"functions.toggle" = "t,space"\n')
    assert user_keymap.read(file) == {"main.run": "f6", "functions.toggle": "t,space"}
    assert user_keymap.read(tmp_path / "none.toml") == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[keys", "1: "),
        (
            '[keys]\nmain.walk = "w"\n',
            r"2: unknown binding main.walk \(choose from: main.back, main.clear, ",
        ),
        ("[keys]\n\nmain.run = 5\n", "3: main.run must be the name of a key"),
        ('theme = "nord"\nkeys = "x"\n', "2: keys must be a table"),
        ("\n\xff\xfe", "2: not UTF-8"),
        ('[keys.main]\nrun = "f6"\nstep = "hyperspace"\n', "3: main.step: unknown key 'hyper"),
        (
            '[keys]\nmain.run = "f6"\nmain.step = "b"\n',
            "3: main.step and main.back have the same key b",
        ),
        (
            '[keys]\nmain.run = "x"\nmain.step = "x"\n',
            "main.run have the same key x|main.step have",
        ),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "keymap.toml"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(UsageError, match=f"^{re.escape(str(file))}:.*(?:{reason})") as raised:
        user_keymap.read(file)
    assert "\n" not in str(raised.value)


def test_the_consoles_own_keys_are_valid() -> None:
    for group in GROUPS.values():
        for binding in group:
            assert all(user_keymap.is_key(key) for key in binding.key.split(",")), binding
    assert not user_keymap.is_key("ctrl+") and not user_keymap.is_key("foo+x")


def test_keys_may_be_swapped(tmp_path: Path) -> None:
    file = tmp_path / "keymap.toml"
    file.write_text('[keys]\nmain.run = "s"\nmain.step = "c"\n')
    assert user_keymap.read(file) == {"main.run": "s", "main.step": "c"}
