"""Damaged files of a user: saved sessions, progress, settings, keymaps, and lessons."""

from __future__ import annotations

import json
import os
from functools import cache
from random import Random

from dynftrace.core.shell.commands import commands
from dynftrace.core.shell.outcome import Outcome
from dynftrace.core.trace.select.rowkey import RowKey
from dynftrace.tui.saved import session_file, settings
from dynftrace.tui.saved.machine_options import MachineOptions
from dynftrace.tui.saved.session_model import Layout, Saved
from dynftrace.tui.saved.session_store import SessionStore
from dynftrace.tui.saved.session_text import as_text
from dynftrace.tui.tours import course, lesson_file
from dynftrace.tui.tours.progress import Progress
from dynftrace.tui.tours.tour import Tour
from dynftrace.tui.tours.walk import Walk

from . import damage, typed
from .images import machine
from .kind import Case, folder, impatient, written


class SavedSession:
    """A damaged session file: read, and restored if it is accepted."""

    name, suffix = "session", ".json"

    def case(self, random: Random) -> Case:
        keys = [RowKey(1000, 1, 2**63, 2)]
        layout = Layout(3, True, "nord", "sched*", function=2**63, trace_filter="cpu:1")
        layout = Layout(
            *(getattr(layout, name) for name in list(Layout.__dataclass_fields__)[:7]),
            marks={"A": keys[0]},
            bookmarks=tuple(keys),
        )
        done = ("insmod usbcore", "echo function > current_tracer", 1000, 1000, "run usb", "step 3")
        if random.random() < 0.5:
            names = [*commands(), "run", "step"]
            done = (*done, *(typed.line(random, names) for _ in range(6)))
        saved = Saved(MachineOptions("x86_64", modules=("usbhub",)), done, 12_000_000, layout)
        if random.random() < 0.4:
            return Case(as_text(saved).encode())
        return Case(damage.json_text(random, json.loads(as_text(saved))))

    def take(self, case: Case) -> str:
        os.environ["XDG_STATE_HOME"] = str(folder())
        path = session_file.path_of("fuzz")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(case.content)
        saved = session_file.load("fuzz")
        assert saved is not None
        session = machine("x86_64")
        store = SessionStore("fuzz", lambda: session, saved)  # type: ignore[arg-type]
        store._machine = lambda: session  # type: ignore[assignment]
        if saved.machine != MachineOptions("x86_64", modules=("usbhub",)):
            return "accepted with another machine"
        with impatient(session):
            store.open()
        return "restored differently" if store.differs else "restored"


class TourProgress:
    """A damaged record of the steps of tours that a user has finished."""

    name, suffix = "progress", ".json"

    def case(self, random: Random) -> Case:
        done = {"hints": 1, "shown": True}
        saved = {each.name: {step.title: done for step in each.steps} for each in tours()}
        return Case(damage.json_text(random, saved))

    def take(self, case: Case) -> str:
        done = Progress(written("tours.json", case.content))
        steps = []
        for each in tours():
            steps += [done.of(each)]
            if not 0 <= done.of(each) <= len(each.steps) or not done.next(each) < len(each.steps):
                raise ValueError(f"{each.name}: {done.of(each)} steps")
            done.reached(Walk(each))
        return "read" if any(steps) else "empty"


@cache
def tours() -> list[Tour]:
    """Return all tours and labs."""
    return [course.load(name) for name in course.names()]


CONFIG = b"""arch = "arm64"
cpus = 4
patch = "none"
theme = "nord"

[keys]
functions.toggle = "f6"
"app.command" = "f7,f8"
"""


class Settings:
    """A damaged config.toml: read, with the options that it sets."""

    name, suffix = "config", ".toml"

    def case(self, random: Random) -> Case:
        tokens = ["[", "[[", "]", "=", '"', '"""', "'", "\n", ".", "{", "1979-05-27", "inf", "0x"]
        tokens += ["arch", "cpus = 8\n", "[keys]\n", "\\u0000", "#", "true", "a.b.c.", "[a."]
        return Case(damage.text(random, CONFIG, tokens))

    def take(self, case: Case) -> str:
        from dynftrace.tui import cli

        path = written("config.toml", case.content)
        with cli.dynftrace.make_context("dynftrace", ["sh"]) as context:
            return "read" if settings.read(path, context) else "empty"


class Keymap:
    """A damaged keymap: read, and applied to a console if it is accepted."""

    name, suffix = "keymap", ".toml"

    def case(self, random: Random) -> Case:
        from dynftrace.tui.console.keymap import GROUPS

        ids = [each.id or "" for group in GROUPS.values() for each in group]
        keys = ["f6", "ctrl+x", "shift+ctrl+alt+f9", "question_mark", "G", "ß", "space", ",", "+"]
        lines = [
            f'{id if random.random() < 0.5 else json.dumps(id)} = "{random.choice(keys)}"'
            for id in random.sample(ids, 6)
        ]
        content = "\n".join(("[keys]", *lines)).encode()
        tokens = ["=", '"', "\n", ",", "+", "ctrl+", "[keys.x]\n", ".", *keys, *ids[:5]]
        return Case(damage.text(random, content, tokens) if random.random() < 0.8 else content)

    def take(self, case: Case) -> str:
        from dynftrace.tui.console import user_keymap
        from dynftrace.tui.console.app import ConsoleApp

        found = user_keymap.read(written("keymap.toml", case.content))
        if not found:
            return "empty"
        ConsoleApp(lambda: None).set_keymap(found)  # type: ignore[arg-type,return-value]
        return "applied"


class Lesson:
    """A damaged lesson: parsed, with its checks if it is accepted."""

    name, suffix = "lesson", ".md"

    def case(self, random: Random) -> Case:
        files = [*course.TOURS.paths, *course.LABS.paths]
        tokens = [
            "```do\n",
            "```check\n",
            "```hint\n",
            "```\n",
            "# ",
            "## ",
            "+++\n",
            "=> ",
            "=/> ",
        ]
        tokens += ["saw site\n", "did run x\n", "> ", "* ", "[", "](", "(", "\\", "<!--", "`", "_"]
        content = random.choice(files).read_bytes()
        return Case(damage.text(random, content, tokens))

    def take(self, case: Case) -> str:
        text = case.content.decode(errors="replace")
        found = lesson_file.parse(text, "fuzz", "fuzz.md")
        for step in found.steps:
            step.done((), lambda command: Outcome("schedule  ip 1 nop\n", "error\n"))
        return "parsed"
