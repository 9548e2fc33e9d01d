"""A tidied picture paints the same as the exported one."""

from __future__ import annotations

import io
import re

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from dynftrace.tui.present.svg import tidy

WIDTH, HEIGHT = 12, 5
CELL_WIDTH, CELL_HEIGHT = 12.2, 24.4

_RECT = re.compile(
    r'<rect fill="([^"]+)" x="([^"]+)" y="([^"]+)" width="([^"]+)" height="([^"]+)" '
    r'shape-rendering="crispEdges"/>'
)

rows = st.lists(
    st.lists(
        st.tuples(st.sampled_from(["on red", "on blue", "on #101418", ""]), st.integers(1, WIDTH)),
        max_size=5,
    ),
    min_size=1,
    max_size=HEIGHT,
)


def exported(lines: list[list[tuple[str, int]]]) -> str:
    console = Console(width=WIDTH, record=True, force_terminal=True, file=io.StringIO())
    for line in lines:
        text = Text.assemble(*(("x" * count, style) for style, count in line))
        text.truncate(WIDTH)
        console.print(text)
    return console.export_svg(title="a title")


def painted(svg: str) -> dict[tuple[int, int], str]:
    """Return the colour in the middle of each cell after painting in file order."""
    cells = {}
    for fill, *numbers in _RECT.findall(svg):
        left, top, width, height = map(float, numbers)
        for row in range(HEIGHT + 1):
            for column in range(WIDTH):
                x, y = (column + 0.5) * CELL_WIDTH, (row + 0.5) * CELL_HEIGHT
                if left <= x < left + width and top <= y < top + height:
                    cells[row, column] = fill
    return cells


@given(rows)
def test_a_tidied_picture_paints_the_same(lines: list[list[tuple[str, int]]]) -> None:
    before = exported(lines)
    after = tidy(before)
    assert painted(after) == painted(before)
    assert len(_RECT.findall(after)) <= len(_RECT.findall(before))
    assert re.findall(r"<text.*?</text>", after) == re.findall(
        r"<text.*?</text>", re.sub(r"terminal-\d+-", "terminal-", before)
    )


def test_one_background_is_one_rectangle() -> None:
    svg = tidy(exported([[("on red", 3), ("on red bold", 4)], [("on red", 7)]]))
    assert [fill for fill, *_ in _RECT.findall(svg)] == ["#cc555a"]


def test_ids_do_not_depend_on_the_content() -> None:
    assert not re.search(r"terminal-\d", tidy(exported([[("", 1)]])))


def test_characters_are_drawn_one_by_one() -> None:
    svg = tidy(exported([[("", 3)]]))
    style = re.search(r"-matrix \{(.*?)\}", svg, re.DOTALL)
    assert style is not None and "font-variant-ligatures: none;" in style[1]
