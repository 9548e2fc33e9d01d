"""Keys: each has an id and a line of help; a keymap file may change them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynftrace.core.errors import UsageError
from dynftrace.tui import keymap


def test_every_binding_has_its_own_id_and_tooltip() -> None:
    bindings = [binding for group in keymap.GROUPS.values() for binding in group]
    assert all(binding.id and binding.tooltip for binding in bindings)
    assert len({binding.id for binding in bindings}) == len(bindings)


@pytest.mark.parametrize("pane", [keymap.FUNCTIONS, keymap.ROWS, keymap.TRACE])
def test_the_footer_fits_eighty_columns(pane: list[keymap.Binding]) -> None:
    shown = [binding for binding in [*pane, *keymap.MAIN] if binding.show]
    assert 5 <= len(shown) <= 6
    text = "  ".join(
        f"{binding.key_display or binding.key} {binding.description}" for binding in shown
    )
    assert len(text) <= 78


def test_a_file_changes_keys(tmp_path: Path) -> None:
    file = tmp_path / "keymap.toml"
    file.write_text('[keys]\nmain.run = "f5"\n"functions.toggle" = "t,space"\n')
    assert keymap.read(file) == {"main.run": "f5", "functions.toggle": "t,space"}
    assert keymap.read(tmp_path / "none.toml") == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[keys", "keymap.toml"),
        ('[keys]\nmain.walk = "w"\n', "there is no key called main.walk"),
        ("[keys]\nmain.run = 5\n", "main.run needs the name of a key"),
        ('keys = "x"\n', "keys is not a table"),
        ("\xff\xfe", "keymap.toml"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "keymap.toml"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(UsageError, match=reason):
        keymap.read(file)
