"""Every screen in every size, as SVG: `python -m dynftrace.tui.screenshots FOLDER`.

Each picture is a session of its own, opened from the teaching kernel and led by
commands and keys, so it is the same on every machine. The tests compare what
this makes with what the folder holds.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from .. import arches
from ..core.session import MachineSpec, Session
from . import tour
from .driver import SessionDriver
from .picture import POSES, Pose, picture
from .tourwalk import Walk
from .wholefile import write_whole

SIZES = ((80, 24), (120, 40), (200, 50))

_TRACED = (
    "echo schedule > set_ftrace_filter",
    "echo function > current_tracer",
    "run syscalls",
    "site schedule",
)
_MANY = (
    "echo '*sched*' 'vfs_*' 'do_*' wake_up_process > set_ftrace_filter",
    "echo function > current_tracer",
    "run syscalls",
    "site schedule",
)


_FAR = (
    "insmod usbcore",
    "echo usb_ifnum_to_if > set_ftrace_filter",
    "echo function > current_tracer",
    "run usb",
    "site usb_ifnum_to_if",
)


_AWAY = "insmod --far usbcore"

_WHOLE_WAY = Pose(("3", "z"))


@dataclass(frozen=True, slots=True)
class Scene:
    """A picture: the commands before it, how its screen is reached, and on what machine."""

    commands: tuple[str, ...]
    pose: Pose
    arch: str = arches.DEFAULT
    nop: str | None = None
    lesson: tuple[str, int] | None = None
    """A tour that is taken, and the number of its step."""


SCENES = {
    "main": Scene((*_MANY, "site schedule"), Pose(("1",))),
    "functions": Scene(_MANY, Pose(("1", "slash", *"sched", "enter"))),
    "site-compiled": Scene(("site schedule",), POSES["site"]),
    "site-enabled": Scene(_TRACED, POSES["site"]),
    "trampoline": Scene(_TRACED, POSES["trampoline"]),
    "trace": Scene(_MANY, POSES["trace"]),
    "graph": Scene(
        (
            "echo do_sys_openat2 vfs_write > set_graph_function",
            "echo function_graph > current_tracer",
            "run syscalls",
        ),
        POSES["trace"],
    ),
    "help": Scene(_TRACED, POSES["help"]),
    "command": Scene(_TRACED, Pose(("colon", *"echo vfs_"))),
    "workloads": Scene(_TRACED, POSES["workloads"]),
    "module": Scene(
        ("insmod usbcore", "echo ':mod:usbcore' > set_ftrace_filter", *_TRACED[1:2], "run usb"),
        Pose(("1", "slash", *":mod:usbcore", "enter")),
    ),
    "refused": Scene(
        (
            "poke schedule eb fe 90 90 90",
            "site schedule",
            "echo schedule > set_ftrace_filter",
            "echo function > current_tracer",
        ),
        POSES["report"],
    ),
    "registers": Scene(
        (
            "echo 'f:fire call_timer_fn timer=$arg1 fn=$arg2:symbol' > dynamic_events",
            "echo 1 > events/fprobes/enable",
            "echo '*timer*' > set_ftrace_filter",
            "echo function > current_tracer",
            "run timers",
        ),
        Pose(("4", "r")),
    ),
    "oops": Scene(("insmod crashy", "call crashy_jump"), POSES["report"]),
    "ppc64-site": Scene(_FAR, POSES["site"], "ppc64"),
    "ppc64-trampoline": Scene(_FAR, _WHOLE_WAY, "ppc64"),
    "ppc64-refused": Scene(
        (
            "insmod usbcore",
            # The word of the stub that says where it leads, in its lower half.
            "poke ftrace_caller.stub+0x24 00002700",
            "site usb_ifnum_to_if",
            *_FAR[1:3],
        ),
        POSES["report"],
        "ppc64",
    ),
    "ppc32-trampoline": Scene(_FAR, _WHOLE_WAY, "ppc32"),
    "arm64-site": Scene((_AWAY, *_FAR[1:]), POSES["site"], "arm64"),
    "arm64-trampoline": Scene((_AWAY, *_FAR[1:]), _WHOLE_WAY, "arm64"),
    "arm64-records": Scene(
        (_AWAY,), Pose(("colon", *"records schedule usb_ifnum_to_if", "enter")), "arm64"
    ),
    "mips-site": Scene(_FAR, POSES["site"], "mips"),
    "mips-trampoline": Scene(
        ("insmod usbcore-trampoline", *_FAR[1:]),
        _WHOLE_WAY,
        "mips",
    ),
    "ppc64-bits": Scene(
        ("insmod usbcore",), Pose(("colon", *"bits usb_ifnum_to_if", "enter", "G")), "ppc64"
    ),
    "mips-bits": Scene((), Pose(("colon", *"bits schedule", "enter", "G")), "mips"),
    "tour": Scene(("site schedule", *_TRACED[:2]), Pose(("2",)), lesson=("call-site", 4)),
    "tour-hint": Scene(
        ("insmod usbcore",), Pose(("3", "f2")), "ppc64", lesson=("ppc64-toc-stub", 3)
    ),
    "2008-unfound": Scene((), Pose(("3",)), "x86_64-2008"),
    "2008-site": Scene(
        ("run syscalls", "sleep 1", "site schedule"), POSES["site"], "x86_64-2008", "jmp"
    ),
    "2008-equilibrium": Scene(
        (*("run syscalls", "sleep 1") * 7, "site schedule"),
        Pose(("1",)),
        "x86_64-2008",
    ),
}
"""The screens by the names of their files."""

TOO_SMALL = (50, 12)


def pictures() -> list[tuple[str, Scene, tuple[int, int]]]:
    """Name, scene and size of each picture."""
    listed = [
        (f"{name}-{w}x{h}", scene, (w, h)) for name, scene in SCENES.items() for w, h in SIZES
    ]
    return [*listed, ("too-small", Scene((), Pose()), TOO_SMALL)]


def draw(scene: Scene, size: tuple[int, int]) -> str:
    """The SVG of `scene` at `size`."""
    session = Session.open(arches.load(scene.arch), MachineSpec(nop=scene.nop))
    walk = None if scene.lesson is None else Walk(tour.load(scene.lesson[0]), scene.lesson[1] - 1)
    driver = SessionDriver(session)
    return asyncio.run(picture(lambda: driver, scene.commands, scene.pose, size, walk))


def main(folder: Path) -> None:
    """Draw all pictures into `folder`, and drop those that no scene makes."""
    folder.mkdir(parents=True, exist_ok=True)
    made = set()
    for name, scene, size in pictures():
        path = folder / f"{name}.svg"
        write_whole(path, draw(scene, size))
        made.add(path)
        print(path)
    for path in set(folder.glob("*.svg")) - made:
        path.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "screenshots"))
