"""The screens to draw, each a machine with the commands and keys that lead to it.

Screens that look the same on every architecture are drawn on one; the others on each port.
A scene's picture is the same on every host.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ... import arches
from ...core.facts import Facts
from .picture import POSES, Pose

_AS_OPENED = Pose()


@dataclass(frozen=True, slots=True)
class Scene:
    """A screen: the machine, the commands to execute on it, and the keys to the screen."""

    setup: tuple[str, ...] = ()
    """Commands executed before the console is opened."""
    commands: tuple[str, ...] = ()
    """Commands typed in the console."""
    pose: Pose = _AS_OPENED
    arch: str = arches.DEFAULT
    nop: str | None = None
    lesson: tuple[str, int] | None = None
    """A tour the console takes, and the number of its current step."""
    after: str | None = None
    """The scene that opened the console, if this one continues in it instead of its own."""
    before: tuple[str, ...] = ()
    """Keys pressed before the commands, to close what the last scene of the console opened."""


_FUNCTION = "echo function > current_tracer"

_TRACED = ("echo schedule > set_ftrace_filter", _FUNCTION, "run syscalls")

_MANY = (
    "echo '*sched*' 'vfs_*' 'do_*' wake_up_process > set_ftrace_filter",
    _FUNCTION,
    "run syscalls",
)

_TREE = (
    "echo do_sys_openat2 vfs_write > set_graph_function",
    "echo function_graph > current_tracer",
    "run syscalls",
)

_SCHEDULE = ("site schedule",)

_WHOLE = Pose(("3", "z"))
"""The pane Trampoline, filling the window."""

_BOX = Pose(("G",), boxes=True)
"""The end of the box that shows a command's output."""


def _module(insmod: str) -> tuple[str, ...]:
    """Return commands that trace a module's function, whose calls use the port's stubs."""
    return insmod, "echo usb_ifnum_to_if > set_ftrace_filter", _FUNCTION, "run usb"


_MAIN = Scene(_MANY, _SCHEDULE, Pose(("1",)))
_SHOWN = replace(_MAIN, commands=(), after="main")


SCREENS = {
    "main": _MAIN,
    "help": replace(_SHOWN, pose=POSES["help"]),
    "workloads": replace(_SHOWN, pose=POSES["workloads"]),
    "palette": replace(_SHOWN, pose=Pose(("ctrl+p", *"exp"))),
    "command": replace(_SHOWN, pose=Pose(("colon", *"echo vfs_"))),
    "filter": replace(_SHOWN, pose=Pose(("escape", "1", "slash", *"sched"))),
    "functions": replace(_SHOWN, pose=Pose(("enter",))),
    "trace": replace(_SHOWN, pose=Pose(("escape", "4", "z"))),
    "trace-filter": replace(
        _SHOWN,
        pose=Pose(("F", *"vfs_* !cpu:1", "enter", *["up"] * 8, "B", "F", *" task")),
    ),
    "site-compiled": Scene((), _SCHEDULE, POSES["site"]),
    "graph-folded": Scene(
        _TREE[:2], _TREE[2:], Pose(("4", "z", "underscore", *["up"] * 8, "minus", "B"))
    ),
    "module": Scene(
        ("insmod usbcore", "echo ':mod:usbcore' > set_ftrace_filter", _FUNCTION),
        ("run usb",),
        Pose(("1", "slash", *":mod:usbcore", "enter")),
    ),
    "registers": Scene(
        (
            "echo 'f:fire call_timer_fn timer=$arg1 fn=$arg2:symbol' > dynamic_events",
            "echo 1 > events/fprobes/enable",
            "echo '*timer*' > set_ftrace_filter",
            _FUNCTION,
        ),
        ("run timers",),
        Pose(("4", "r")),
    ),
    "patch": Scene(
        ("patch breakpoint", "patch watch schedule"),
        ("echo function > current_tracer", "patch next", "until schedule"),
        POSES["patch"],
    ),
    "patch-between": Scene(
        ("insmod usbcore", "insmod usbhub", "until usb_ifnum_to_if usb", "step 1"),
        ("patch watch usb_ifnum_to_if", "echo function > current_tracer"),
        POSES["patch"],
        "ppc64",
    ),
    "race": Scene(
        ("insmod usbcore", "insmod usbhub"),
        ("race usb_ifnum_to_if usb",),
        Pose(boxes=True),
        "ppc64",
    ),
    "oops": Scene(("insmod crashy",), ("call crashy_jump",), POSES["report"]),
    "tour": Scene((), (*_SCHEDULE, *_TRACED[:2]), Pose(("2",)), lesson=("call-site", 4)),
    "tour-hint": Scene(
        ("insmod usbcore",), (), Pose(("3", "f2")), "ppc64", lesson=("ppc64-toc-stub", 3)
    ),
    "2008-unfound": Scene((), (), Pose(("3",)), "x86_64-2008"),
    "2008-equilibrium": Scene(
        ("run syscalls", "sleep 1") * 6, _SCHEDULE, Pose(("1",)), "x86_64-2008"
    ),
    "arm64-records": Scene(
        ("insmod --far usbcore",), ("records schedule usb_ifnum_to_if",), _BOX, "arm64"
    ),
    "mips-trampoline-module": Scene(
        _module("insmod usbcore-trampoline"), ("site usb_ifnum_to_if",), _WHOLE, "mips"
    ),
    "ppc64-refused-stub": Scene(
        ("insmod usbcore",),
        (
            # The lower half of this word of the stub is where the stub leads.
            "poke ftrace_caller.stub+0x24 00002700",
            "site usb_ifnum_to_if",
            *_module("")[1:3],
        ),
        POSES["report"],
        "ppc64",
    ),
}
"""Screens that look the same on every port, and screens that only one port has."""


def _enabling(facts: Facts) -> tuple[str, ...]:
    """Return the commands after which the port's example site has been traced."""
    example = facts.example
    if example.module:
        far = "--far " if facts.modules_far else ""
        return _module(f"insmod {far}{example.module}")
    found_late = "ftraced" in facts.discovery
    return ("run syscalls", "sleep 1", *_TRACED) if found_late else _TRACED


def port_scenes(arch: str) -> dict[str, Scene]:
    """Return the screens of one port, by their names."""
    facts = arches.load(arch).facts
    function, enable = facts.example.function, _enabling(facts)
    base = Scene(enable, (f"site {function}",), arch=arch)
    main = f"{arch}-main"
    shown = replace(base, commands=(), after=main)
    loop = f"poke {function}+{facts.example.offset} {facts.self_jump.hex(' ')}"
    stopped = (f"until {function} {enable[-1].removeprefix('run ')}", "step 5")
    tree = ("echo > set_ftrace_filter", *_TREE)
    chosen = enable[-3:-1]
    refused = ("echo nop > current_tracer", loop, f"site {function}", *chosen)
    return {
        main: replace(base, pose=Pose(("1",))),
        f"{arch}-site": replace(shown, pose=POSES["site"]),
        f"{arch}-bits": replace(shown, commands=(f"bits {function}",), pose=_BOX),
        f"{arch}-trampoline": replace(shown, pose=_WHOLE),
        f"{arch}-graph": replace(shown, commands=tree, pose=Pose(("4",))),
        f"{arch}-stepping": replace(
            shown, before=("z",), commands=(*chosen, *stopped), pose=POSES["stepping"]
        ),
        f"{arch}-refused": replace(shown, commands=refused, pose=POSES["report"]),
    }


def scenes() -> dict[str, Scene]:
    """Return all screens, by the names of their pictures."""
    named = dict(SCREENS)
    for arch in arches.built_in():
        named |= port_scenes(arch)
    return named
