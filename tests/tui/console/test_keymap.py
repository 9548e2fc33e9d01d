"""Keys: each has an id and a line of help; a keymap file may change them."""

from __future__ import annotations

import pytest

from dynftrace.tui.console import keymap


def test_every_binding_has_its_own_id_and_tooltip() -> None:
    bindings = [binding for group in keymap.GROUPS.values() for binding in group]
    assert all(binding.id and binding.tooltip for binding in bindings)
    assert len({binding.id for binding in bindings}) == len(bindings)


@pytest.mark.parametrize("pane", [keymap.FUNCTIONS, keymap.ROWS, keymap.TRACE])
def test_the_footer_fits_eighty_columns(pane: list[keymap.Binding]) -> None:
    shown = [binding for binding in [*pane, *keymap.MAIN] if binding.show]
    assert 5 <= len(shown) <= 7
    text = "  ".join(
        f"{binding.key_display or binding.key} {binding.description}" for binding in shown
    )
    assert len(text) <= 78
