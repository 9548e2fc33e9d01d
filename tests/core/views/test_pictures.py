"""Pictures: what stands where is compared with addresses and events, not with the drawing."""

from __future__ import annotations

import time
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from dynftrace.core.errors import UsageError
from dynftrace.core.ftrace.phases import Act
from dynftrace.core.session.pictures import PICTURES, drawing_of, picture_of
from dynftrace.core.session.session import Session
from dynftrace.core.trace.buffer.events import EVENT, EventTable
from dynftrace.core.trace.export.stacks import stacks_of
from dynftrace.core.trace.text.textcontext import TextContext
from dynftrace.core.views.drawing import Drawing, plain_lines, svg
from dynftrace.core.views.lanes import Lanes
from dynftrace.core.views.times import flame, zoomed

from ...support.user import executor, opened


@pytest.fixture(scope="module")
def session() -> Session:
    session = opened("ppc64", cpus=2)
    executor(session)("insmod usbcore; echo function_graph > current_tracer; run syscalls")
    return session


def test_the_map_has_ftrace_caller_out_of_reach_of_a_far_module(session: Session) -> None:
    space = session.address_space(0xD00000000000001C)
    assert space.reach is not None
    first, last = space.reach
    caller = session.boot.ftrace.entry["ftrace_caller"]
    assert not first <= caller <= last
    drawing = picture_of(session, "map", "usb_ifnum_to_if")
    assert isinstance(drawing, Drawing)
    rows = {row.label: row for section in drawing.sections for row in section.rows}
    assert "✗" in rows["ftrace_caller"].note and "✗" not in rows["stubs of usbcore"].note
    for width in (40, 80, 200):
        assert max(map(len, plain_lines(drawing, width))) <= max(width, 80)


@pytest.mark.parametrize("arch", ["x86_64", "ppc64", "mips", "arm64"])
def test_the_scales_of_a_map_rise_and_stay_in_the_address_space(arch: str) -> None:
    drawing = picture_of(opened(arch, cpus=1), "map", "schedule")
    ends = [
        (int(section.left, 16), int(section.right, 16), len(section.right))
        for section in drawing.sections
    ]
    assert all(low < high for low, high, _ in ends)
    assert all(below[1] < above[0] for below, above in pairwise(ends))
    assert {digits for _, _, digits in ends} == {8 if arch == "mips" else 16}


def test_lanes_count_every_event_of_their_window(session: Session) -> None:
    events = session.boot.array.text().table.events
    lanes = picture_of(session, "lanes")
    assert isinstance(lanes, Lanes)
    first, last = lanes.span
    marks = {each.ns for each in session.boot.ftrace.patcher.performed}
    began = min({int(events["ts"].min())} | {ns for ns in marks if ns >= first})
    assert (first, last) == (began, int(events["ts"].max()) + 1)
    middle = (first + last) // 2
    for start, end in ((first, last), (middle, last), (first, middle)):
        inside = (events["ts"] >= start) & (events["ts"] < end)
        rows = lanes.drawing(start, end, 80).sections[0].rows
        for cpu in (0, 1):
            row = next(row for row in rows if row.label == f"CPU {cpu}")
            assert row.note == f"{np.count_nonzero(inside & (events['cpu'] == cpu)):,} events"
    assert lanes.beyond(first, 1) == min(
        each for each in {*events["ts"].tolist(), *marks} if each > first
    )
    assert lanes.beyond(last, 1) is None


def test_the_phases_of_a_patch_are_marks_on_the_lanes() -> None:
    execute = executor(session := opened("x86_64", cpus=2))
    execute("patch breakpoint; echo schedule > set_ftrace_filter; echo function > current_tracer")
    execute("run syscalls; echo vfs_read >> set_ftrace_filter; run syscalls; patch none")
    execute("echo vfs_write >> set_ftrace_filter; run syscalls")
    lanes, performed = picture_of(session, "lanes"), session.boot.ftrace.patcher.performed
    assert isinstance(lanes, Lanes) and len({each.ns for each in performed}) > 3
    start, end = lanes.span
    inside = [each for each in performed if start <= each.ns < end]
    row = lanes.drawing(start, end, 80).sections[0].rows[-1]
    assert row.label == "patch" and row.note == f"{len(inside)} phases"
    bars = sorted(row.bars, key=lambda bar: bar.start)
    for bar, phase in zip(bars, sorted(inside, key=lambda each: each.ns), strict=True):
        assert round(start + bar.start * (end - start)) == phase.ns
    assert {bar.sign for bar in row.bars} >= {"W", "S", "!"}
    assert sum(bar.sign == "!" for bar in row.bars) == sum(not each.safe for each in inside)


def test_stoppers_are_marks_and_hide_no_write() -> None:
    execute = executor(session := opened("x86_64", cpus=2))
    execute("echo schedule > set_ftrace_filter; echo function > current_tracer; run syscalls")
    execute("echo vfs_read >> set_ftrace_filter; run syscalls")
    row = execute("lanes").splitlines()[-1]
    assert row.startswith("patch") and "W" in row
    lanes, timing = picture_of(session, "lanes"), session.boot.ftrace.patcher.last
    assert isinstance(lanes, Lanes) and timing is not None
    near = lanes.drawing(timing.asked, timing.ended, 80).sections[0].rows[-1]
    assert sorted(bar.sign for bar in near.bars) == ["M", "M", "M", "W"]
    last = session.boot.ftrace.patcher.performed[-4:]
    assert [each.act for each in last] == [Act.PREPARE, Act.DISABLE_IRQ, Act.RUN, Act.EXIT]
    assert [each.ns for each in last] == sorted(each.ns for each in last)


def test_a_million_events_are_drawn_within_a_frame() -> None:
    events = np.zeros(1_000_000, EVENT)
    events["ts"] = np.arange(len(events)) * 100
    events["cpu"] = np.arange(len(events)) % 4
    events["pid"] = np.arange(len(events)) // 1000 % 7

    class Text:
        table = EventTable(events)
        context = TextContext(symbols=None)  # type: ignore[arg-type]

    lanes = Lanes(Text())  # type: ignore[arg-type]
    begin = time.process_time()
    lanes.drawing(*lanes.span, 190)
    assert time.process_time() - begin < 0.1


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_is_well_formed_svg_and_always_the_same(session: Session, name: str) -> None:
    drawing = drawing_of(session, name, "vfs_read" if name in ("map", "hist") else "")
    root = ElementTree.fromstring(svg(drawing))
    assert root.tag.endswith("svg") and len(root) > 5
    assert svg(drawing) == svg(drawing)


@pytest.mark.parametrize(
    ("name", "function", "wrong"),
    [
        ("map", "nosuch", "no function named 'nosuch' has a call site"),
        ("hist", "", "name the function"),
        ("hist", "nosuch", "no call of nosuch"),
        ("pie", "", "unknown picture 'pie'"),
    ],
)
def test_a_picture_that_cannot_be_drawn_says_why(
    session: Session, name: str, function: str, wrong: str
) -> None:
    with pytest.raises(UsageError, match=wrong):
        picture_of(session, name, function)


def test_a_zoomed_flame_graph_has_the_calls_of_one_function(session: Session) -> None:
    text = session.boot.array.text()
    prefix = text.context.text_prefix
    stacks = [
        tuple(name.removeprefix(prefix) for name in (stack.task, *stack.frames))
        for stack in stacks_of(text)
    ]
    own = [stack.own_ns for stack in stacks_of(text)]
    idle = [names[0].startswith("<idle>") for names in stacks]
    for path in (("vfs_read",), ("ksys_read", "vfs_read")):
        total = sum(
            ns
            for names, ns, out in zip(stacks, own, idle, strict=True)
            if not out and any(names[at : at + len(path)] == path for at in range(len(names)))
        )
        below = zoomed(flame(text), ",".join(path), prefix)
        assert below is not None and below.total_ns == total > 0
    assert zoomed(flame(text), "nosuch") is None
