"""Every screen in every size and look, as SVG: `python -m dynftrace.tui.screenshots FOLDER`.

Each picture is a session of its own, opened from the teaching kernel and led by
commands and keys, so it is the same on every machine. The tests compare what
this makes with what the folder holds.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from .. import arches
from ..core.session import MachineSpec, Session
from . import tour
from .driver import SessionDriver
from .picture import LOOKS, looks
from .scenes import Scene, scenes
from .tourwalk import Walk
from .wholefile import write_whole

SIZES = ((80, 24), (120, 40), (200, 50))

TOO_SMALL = (50, 12)


def pictures() -> list[tuple[str, Scene, tuple[int, int]]]:
    """Name, scene and size of each picture."""
    listed = [
        (f"{name}-{w}x{h}", scene, (w, h)) for name, scene in scenes().items() for w, h in SIZES
    ]
    return [*listed, ("too-small", Scene(), TOO_SMALL)]


def draw(scene: Scene, size: tuple[int, int]) -> Mapping[str, str]:
    """The SVG of `scene` at `size` in each of `LOOKS`, by its name."""
    session = Session.open(arches.load(scene.arch), MachineSpec(nop=scene.nop))
    walk = None if scene.lesson is None else Walk(tour.load(scene.lesson[0]), scene.lesson[1] - 1)
    driver = SessionDriver(session)
    for command in scene.setup:
        driver.execute(command)
    return asyncio.run(looks(lambda: driver, scene.commands, scene.pose, size, walk))


def index() -> str:
    """The page that leads to all pictures, in Markdown."""
    sizes = " | ".join(f"{w}x{h}" for w, h in SIZES)
    lines = [
        "# Pictures",
        "",
        "Each screen in three sizes: dark, light, and without colours (`NO_COLOR`). They are",
        "made by `make screenshots` and compared by the tests with what the console shows.",
        "",
        f"| screen | {sizes} |",
        f"|---|{'---|' * len(SIZES)}",
    ]
    for name in scenes():
        cells = [
            " ".join(f"[{look}]({look}/{name}-{w}x{h}.svg)" for look in LOOKS) for w, h in SIZES
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(folder: Path) -> None:
    """Draw all pictures into `folder`, and drop those that no scene makes."""
    made = {folder / "README.md"}
    for look in LOOKS:
        (folder / look).mkdir(parents=True, exist_ok=True)
    write_whole(folder / "README.md", index())
    names, all_scenes, sizes = zip(*pictures(), strict=True)
    # Each picture leaves an app behind; looking for it among all that lives takes half the time.
    rarely = partial(gc.set_threshold, 100_000)
    with ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=rarely) as pool:
        for name, drawn in zip(names, pool.map(draw, all_scenes, sizes), strict=True):
            for look, text in drawn.items():
                path = folder / look / f"{name}.svg"
                write_whole(path, text)
                made.add(path)
            print(name)
    for path in {*folder.rglob("*.svg")} - made:
        path.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "screenshots"))
