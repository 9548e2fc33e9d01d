"""Draw the screens: `python -m dynftrace.tui.pictures.screenshots PICTURES TEXTS`.

Every scene is drawn as plain text, at 80x24 and 120x40, so that a diff shows what a change
does to the console; at 80x24, the scenes of ports only for those with the widest text. One
screen of each kind, and each that the documents show, is drawn as SVG as well. The README
opens with a movie.

Each console has a session of its own, opened from the teaching kernel. Commands and keys
drive it, so a drawing is the same on every host. The tests compare both folders with new
drawings.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from ... import arches
from ...core.session.session import MachineSpec, Session
from ..console.driver import SessionDriver
from ..files.status_line import StatusLine
from ..files.whole_file import write_whole
from ..tours import course
from ..tours.walk import Walk
from .movie import animated
from .picture import LOOKS, Drawing, Take, in_looks
from .recorder import record_console
from .scenes import SCREENS, Scene, port_scenes, scenes

SMALL = (80, 24)
USUAL = (120, 40)
"""Columns and rows at which every scene is drawn."""

WIDEST = ("x86_64", "ppc64", "mips64", "arm64")
"""The port with the longest lines of each family; its scenes are drawn at `SMALL` too."""

LARGE = (200, 50)

LARGE_SCENES = (
    "main",
    "trace",
    "help",
    "command",
    "filter",
    "workloads",
    "site-compiled",
    "x86_64-refused",
)
"""Scenes drawn at `LARGE` too: one for each layout of the window."""

TOO_SMALL = "too-small-50x12"

ALL_LOOKS = tuple(LOOKS)

PICTURES: Mapping[str, tuple[str, ...]] = {
    **{
        f"{name}-120x40": ("dark",)
        for name in (
            *("functions", "site-compiled", "trace", "graph-folded", "help", "command"),
            *("workloads", "palette", "module", "registers", "tour", "tour-hint"),
            *("x86_64-trampoline", "x86_64-stepping", "x86_64-graph", "x86_64-refused"),
            *("2008-unfound", "2008-equilibrium", "arm64-records", "mips-trampoline-module"),
            *("ppc64-bits", "ppc64-trampoline", "ppc64-stepping", "ppc64-refused-stub"),
        )
    },
    "main-120x40": ALL_LOOKS,
    "trace-filter-120x40": ALL_LOOKS,
    "x86_64-site-120x40": ALL_LOOKS,
    "x86_64-bits-120x40": ALL_LOOKS,
    "oops-120x40": ALL_LOOKS,
    "patch-120x40": ALL_LOOKS,
    "main-80x24": ("dark",),
    "main-200x50": ("dark",),
}
"""The drawings that have SVG files, and their looks."""


MOVIE = "enable.svg"
MOVIE_COMMANDS = (
    "echo schedule > set_ftrace_filter",
    "echo function > current_tracer",
    "run syscalls",
)
MOVIE_SIZE = (100, 30)
MOVIE_PAUSE_MS = 2000
"""The movie: about ten seconds, in which a nop becomes a call and the events arrive."""


def consoles() -> dict[str, tuple[tuple[int, int], dict[str, Scene]]]:
    """Return the size and the scenes, in order and by name, of each console to open.

    The key of a console is the name of its first drawing. A console may begin with any of its
    scenes, because its setup serves them all.
    """
    chosen = SCREENS.keys() | {name for arch in WIDEST for name in port_scenes(arch)}
    opened: dict[tuple[str, tuple[int, int]], dict[str, Scene]] = {}
    for name, scene in scenes().items():
        for size in (SMALL, USUAL, LARGE):
            if size == USUAL or name in (chosen if size == SMALL else LARGE_SCENES):
                console = opened.setdefault((scene.after or name, size), {})
                console[_drawing(name, size)] = scene
    opened[TOO_SMALL, (50, 12)] = {TOO_SMALL: Scene()}
    return {next(iter(named)): (size, named) for (_, size), named in opened.items()}


def _drawing(name: str, size: tuple[int, int]) -> str:
    """Return the name of a scene's drawing."""
    return f"{name}-{size[0]}x{size[1]}"


def draw(name: str) -> dict[str, Drawing]:
    """Open a machine and the console `name` on it, and draw its scenes, by their names."""
    size, named = consoles()[name]
    scene = named[name]
    session = Session.open(arches.load(scene.arch), MachineSpec(nop=scene.nop))
    walk = None if scene.lesson is None else Walk(course.load(scene.lesson[0]), scene.lesson[1] - 1)
    driver = SessionDriver(session)
    for command in scene.setup:
        driver.execute(command)
    takes = [
        Take(each.commands, each.pose, PICTURES.get(drawing, ()), each.before)
        for drawing, each in named.items()
    ]
    drawn = asyncio.run(in_looks(lambda: driver, takes, size, walk))
    return dict(zip(named, drawn, strict=True))


def movie() -> str:
    """Record the movie of the README."""
    session = Session.open(arches.load(arches.DEFAULT))
    made = record_console(
        lambda: SessionDriver(session), MOVIE_COMMANDS, MOVIE_SIZE, MOVIE_PAUSE_MS
    )
    return "".join(animated(made))


def index() -> str:
    """Return the page that links to all pictures, in Markdown."""
    lines = [
        "# Pictures",
        "",
        "One picture of each kind of screen in the dark theme, and some also in the light theme",
        "and without colours (`NO_COLOR`). `make screenshots` draws them, and writes every screen",
        "as text to [tests/tui/screens](../tests/tui/screens); the tests compare both with the",
        "console.",
        f"[{MOVIE}]({MOVIE}) is a movie: ftrace enables a call site.",
        "",
        "| screen | pictures |",
        "|---|---|",
    ]
    for name, looks in sorted(PICTURES.items()):
        links = " ".join(f"[{look}]({look}/{name}.svg)" for look in looks)
        lines.append(f"| {name} | {links} |")
    return "\n".join(lines) + "\n"


def files(pictures: Path, texts: Path, name: str) -> Iterator[Path]:
    """Yield the files of the drawing `name`: its text, then its pictures."""
    yield texts / f"{name}.txt"
    for look in PICTURES.get(name, ()):
        yield pictures / look / f"{name}.svg"


def main(pictures: Path, texts: Path) -> None:
    """Draw everything into the two folders, and delete drawings that no scene makes."""
    opened = consoles()
    names = [name for _, named in opened.values() for name in named]
    kept = {path for name in names for path in files(pictures, texts, name)}
    for folder in {path.parent for path in kept}:
        folder.mkdir(parents=True, exist_ok=True)
    kept.add(pictures / MOVIE)
    write_whole(pictures / MOVIE, movie())
    write_whole(pictures / "README.md", index())
    # Each drawing leaves a dead app. With the default threshold, half of the time goes into
    # collecting them.
    rarely = partial(gc.set_threshold, 100_000)
    with ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=rarely) as pool:
        progress = StatusLine("consoles", len(opened))
        for console in progress.over(pool.map(draw, opened)):
            for name, drawn in console.items():
                made = (drawn.text, *drawn.pictures.values())
                for path, content in zip(files(pictures, texts, name), made, strict=True):
                    write_whole(path, content)
                print(name)
    for path in {*pictures.rglob("*.svg"), *texts.glob("*.txt")} - kept:
        path.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
