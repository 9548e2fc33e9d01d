"""The function list: filter, identity, toggling, 60,000 rows."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from textual import on
from textual.app import App, ComposeResult

from dynftrace.tui.console.messages import CommandWanted, FunctionHighlighted
from dynftrace.tui.console.widgets.function_list import SCROLLBAR, FunctionList
from dynftrace.tui.explore.function_table import FunctionIndex, as_glob
from dynftrace.tui.present.line import Subject

from ..canned import MODULE_NAMES, NAMES, index, table


@pytest.fixture(autouse=True)
def _by_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sort new function lists by address, as `NAMES` is."""
    monkeypatch.setattr(FunctionList.order, "_default", "address")


class ListApp(App[None]):
    """An app with only the list."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted: list[str] = []
        self.ips: list[int] = []

    def compose(self) -> ComposeResult:
        yield FunctionList()

    @property
    def list(self) -> FunctionList:
        return self.query_one(FunctionList)

    @on(CommandWanted)
    def want(self, message: CommandWanted) -> None:
        self.wanted.append(message.command)

    @on(FunctionHighlighted)
    def highlight(self, message: FunctionHighlighted) -> None:
        self.ips.append(message.ip)

    def names(self) -> list[str]:
        """Return the names shown, in order."""
        rows = self.list
        assert rows.functions is not None
        return [rows.functions.row(int(i)).name for i in rows._shown]

    def current(self) -> str:
        """Return the name under the cursor."""
        at = self.list.current()
        assert at is not None and self.list.functions is not None
        return self.list.functions.row(at).name


def test_a_filter_becomes_a_glob() -> None:
    assert as_glob("") == "*"
    assert as_glob("sched") == "*sched*"
    assert as_glob("vfs_*") == "vfs_*"
    assert as_glob(":mod:usbcore") == "*:mod:usbcore"
    assert as_glob("usb !usb_get*") == "*usb* !usb_get*"


async def test_the_filter_shows_matching_functions() -> None:
    app = ListApp()
    async with app.run_test(size=(40, 12)):
        app.list.show(table(index()))
        assert app.names() == [*NAMES, *MODULE_NAMES]
        app.list.pattern = "sched"
        assert app.names() == ["schedule", "__schedule", "scheduler_tick"]
        app.list.pattern = "*:mod:usbcore"
        assert app.names() == MODULE_NAMES
        app.list.pattern = "vfs_* !*write"
        assert app.names() == ["vfs_read", "vfs_open"]
        app.list.pattern = "no_such*"
        assert app.names() == []
        assert app.list.current() is None
        app.list.pattern = ""
        assert len(app.names()) == len(NAMES) + len(MODULE_NAMES)


async def test_the_cursor_keeps_its_function() -> None:
    app = ListApp()
    async with app.run_test(size=(40, 12)) as pilot:
        functions = index()
        app.list.show(table(functions))
        await pilot.press(*["j"] * NAMES.index("vfs_write"))
        assert app.current() == "vfs_write"
        app.list.pattern = "vfs"
        assert app.current() == "vfs_write"
        app.list.pattern = ""
        assert app.current() == "vfs_write"
        app.list.order = "name"
        assert app.names() == sorted(app.names())
        assert app.current() == "vfs_write"
        app.list.show(table(functions, traced=["vfs_write", "kfree"]))
        app.list.order = "state"
        assert app.names()[:2] == ["kfree", "vfs_write"]
        assert app.current() == "vfs_write"
        await pilot.pause()
        assert app.ips[-1] == functions.ips[NAMES.index("vfs_write")]


async def test_the_cursor_keeps_its_function_while_hits_and_states_change() -> None:
    app = ListApp()
    async with app.run_test(size=(40, 12)) as pilot:
        functions = index()
        app.list.show(table(functions))
        app.list.pattern = "k* vfs_*"
        await pilot.press("G")
        assert app.current() == "vfs_open"
        random = np.random.default_rng(5)
        for order in ("hits", "state", "hits"):
            app.list.order = order
            for _ in range(10):
                hits = random.integers(0, 1000, len(functions))
                traced = random.choice(NAMES, 5, replace=False).tolist()
                app.list.show(replace(table(functions, traced), hits=hits))
                await pilot.pause()
                assert app.current() == "vfs_open"
                top = app.list.scroll_offset.y
                assert top <= app.list.cursor < top + 12
                shown = [int(i) for i in app.list._shown]
                if order == "hits":
                    assert [hits[i] for i in shown] == sorted(hits[shown], reverse=True)
        assert app.ips[-1] == functions.ips[NAMES.index("vfs_open")]


async def test_new_counts_do_not_scroll_the_list() -> None:
    app = ListApp()
    async with app.run_test(size=(40, 12)) as pilot:
        functions = index()
        app.list.show(table(functions))
        await pilot.pause()
        app.list.scroll_to(y=15, animate=False, immediate=True, force=True)
        await pilot.pause()
        for count in range(1, 4):
            hits = np.arange(len(functions)) * count
            app.list.show(replace(table(functions), hits=hits))
            await pilot.pause()
            assert app.list.scroll_offset.y == 15 and app.current() == NAMES[0]


async def test_go_to_prefers_a_whole_name() -> None:
    app = ListApp()
    async with app.run_test(size=(40, 12)):
        app.list.show(table(index()))
        for end in range(1, len("schedule") + 1):
            app.list.pattern = "schedule"[:end]
        assert app.names()[0] == app.current() == "schedule"
        app.list.order = "name"
        assert app.names()[0] == "schedule"


async def test_go_to_shows_a_hidden_function() -> None:
    app = ListApp()
    async with app.run_test(size=(40, 12)):
        functions = index()
        app.list.show(table(functions))
        app.list.pattern = "usb"
        assert app.list.go_to(int(functions.ips[NAMES.index("schedule")]))
        assert app.current() == "schedule"
        assert not app.list.go_to(0x1234)


async def test_toggling_gives_the_shell_command() -> None:
    app = ListApp()
    async with app.run_test(size=(40, 12)) as pilot:
        functions = index()
        app.list.show(table(functions))
        await pilot.press("down", "space")
        assert app.wanted == ["echo schedule >> set_ftrace_filter"]
        app.list.show(table(functions, traced=["schedule"]))
        await pilot.press("space")
        assert app.wanted[-1] == "echo '!schedule' >> set_ftrace_filter"
        app.list.pattern = "vfs_*"
        await pilot.press("a", "x")
        assert app.wanted[-2:] == [
            "echo 'vfs_*' > set_ftrace_filter",
            "echo > set_ftrace_filter",
        ]


def test_functions_to_begin_with_come_first_then_modules() -> None:
    names = [".setup_arch", ".vfs_read", ".schedule", ".usb_init", ".schedule"]
    ips = np.arange(5, dtype=np.uint64)
    modules = ["", "", "", "usbcore", "other"]
    functions = table(FunctionIndex(names, modules, ips, ".", ("schedule", "vfs_read")))
    assert list(functions.match("", "use")) == [2, 1, 3, 4, 0]
    assert list(functions.match("vfs*", "use")) == [1]


async def test_the_code_prefix_may_be_omitted() -> None:
    names = [".schedule_timeout", ".schedule", ".add", "ftrace_stub"]
    ips = np.arange(4, dtype=np.uint64)
    functions = table(FunctionIndex(names, [""] * 4, ips, "."))
    assert [functions.row(i).name for i in functions.match("sched", "address")] == names[:2]
    assert [functions.row(i).name for i in functions.match("schedule", "address")] == [
        ".schedule",
        ".schedule_timeout",
    ]
    assert [functions.row(i).name for i in functions.match(".add", "name")] == [".add"]
    by_name = [functions.row(i).name for i in functions.match("", "name")]
    assert by_name == [".add", "ftrace_stub", ".schedule", ".schedule_timeout"]
    app = ListApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.list.show(functions)
        await pilot.press("G")
        app.list.pattern = "schedule"
        assert app.current() == ".schedule"
        await pilot.press("space")
        assert app.wanted == ["echo .schedule >> set_ftrace_filter"]


async def test_vi_keys_move_the_cursor() -> None:
    app = ListApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.list.show(table(index()))
        await pilot.press("G")
        assert app.current() == "hub_probe"
        assert app.list.scroll_offset.y == len(NAMES) + len(MODULE_NAMES) - 12
        await pilot.press("k")
        assert app.current() == "usb_put_intf"
        await pilot.press("g")
        assert app.current() == NAMES[0]
        await pilot.press("ctrl+d")
        assert app.list.cursor == 6
        await pilot.press("ctrl+u")
        assert app.list.cursor == 0


async def test_the_state_is_readable_without_colour() -> None:
    app = ListApp()
    async with app.run_test(size=(40, 12)):
        app.list.show(table(index(), traced=["schedule"], refused=["__schedule"]))
        texts = ["".join(text for text, _ in app.list.line(row, 40)) for row in range(3)]
        assert texts[0].startswith("▶· start_kernel") and texts[0].rstrip().endswith("off")
        assert texts[1].startswith(" T schedule") and texts[1].rstrip().endswith("traced")
        assert texts[2].startswith(" ! __schedule") and texts[2].rstrip().endswith("refused")
        assert {len(text) for text in texts} == {40 - SCROLLBAR}


async def test_of_60_000_rows_only_the_visible_are_drawn() -> None:
    app = ListApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.list.show(table(index(60_000)))
        drawn: list[int] = []
        line = app.list.line
        app.list.line = lambda row, width: (drawn.append(row), line(row, width))[1]  # type: ignore[method-assign]
        app.list.pattern = "sched_*"
        await pilot.pause()
        assert app.list.count() == 20_000
        assert len(set(drawn)) <= 24
        start = time.process_time()
        app.list.pattern = "*function_1*"
        assert time.process_time() - start < 1.0  # detects a hang; not a measurement


async def test_an_empty_list_says_why() -> None:
    app = ListApp()
    async with app.run_test(size=(60, 10)) as pilot:
        said = []
        for pattern, functions in (("nothing_like_it", table(index())), ("", table(index(0)))):
            app.list.show(functions)
            app.list.pattern = pattern
            await pilot.pause()
            said.append(app.list.render_line(1).text.strip())
        assert said == ["no function matches the filter", "no function has a record yet"]


async def test_copying_a_row_copies_the_function() -> None:
    app = ListApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.list.show(table(index(), traced=["schedule"]))
        await pilot.press("down", "y")
        await pilot.pause()
        assert app.clipboard == "schedule"
        (row,) = np.flatnonzero(np.array([*NAMES, *MODULE_NAMES]) == "hub_probe")
        app.list.cursor = int(row)
        await pilot.press("y")
        await pilot.pause()
        assert app.clipboard == "hub_probe"
        assert app.list.line(int(row), 40).subject == Subject("hub_probe", app.list.ip)
