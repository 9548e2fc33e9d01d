"""Handmade pages in both byte orders and word sizes, and pages of random bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dynftrace.core.trace.buffer.subbuffer import DATA_SIZE, Decoded, PageFormat

from .pages import Page

LAYOUTS = [("little", 8), ("big", 8), ("little", 4), ("big", 4)]
IP = 0x8100_1000
PARENT = 0x8100_2004


def pages(*built: Page) -> NDArray[np.uint8]:
    joined = b"".join(page.bytes() for page in built)
    return np.frombuffer(joined, np.uint8).reshape(len(built), 4096)


def decode(*built: Page) -> Decoded:
    layout = PageFormat(built[0].byteorder, built[0].pointer_size)
    return layout.decode(pages(*built))


@pytest.mark.parametrize(("byteorder", "pointer_size"), LAYOUTS)
def test_function_events_are_decoded(byteorder: str, pointer_size: int) -> None:
    page = Page(byteorder, pointer_size, stamp=1000)
    page.function(0, IP, PARENT, pid=7, flags=0x15, preempt=0x21)
    page.function(30, IP + 4, PARENT, pid=-1)
    decoded = decode(page)
    first, second = decoded.events
    assert (first["ts"], second["ts"]) == (1000, 1030)
    assert (first["ip"], first["parent"]) == (IP, PARENT)
    assert (first["pid"], first["flags"], first["preempt"], first["type"]) == (7, 0x15, 0x21, 1)
    assert (second["ip"], second["pid"]) == (IP + 4, -1)
    assert second["offset"] == 12 + 2 * pointer_size == second["size"]
    assert not decoded.damaged.any()


@pytest.mark.parametrize(("byteorder", "pointer_size"), LAYOUTS)
def test_every_kind_of_event_is_decoded(byteorder: str, pointer_size: int) -> None:
    page = Page(byteorder, pointer_size, stamp=(1 << 59) + 500)
    page.function(5, IP, PARENT)
    page.extend(1 << 40).function(2, IP, PARENT, long=True)
    page.discarded(40)
    page.text(3, IP, b"hello")
    page.absolute((1 << 45) + 9).function(1, IP + 8, PARENT)
    page.text(0, IP, b"x" * 200)
    page.padding().raw(b"\xff" * 60)
    decoded = decode(page)
    base = (1 << 59) + 505
    absolute = (1 << 59) + (1 << 45) + 10
    assert decoded.events["ts"].tolist() == [
        base,
        base + (1 << 40) + 2,
        base + (1 << 40) + 5,
        absolute,
        absolute,
    ]
    assert decoded.events["type"].tolist() == [1, 1, 5, 1, 5]
    assert decoded.events["ip"].tolist() == [IP, IP, IP, IP + 8, IP]
    assert decoded.details.texts == (b"hello", b"x" * 200)
    assert decoded.events["parent"].tolist() == [PARENT, PARENT, 0, PARENT, 1]
    assert not decoded.damaged.any()


def test_offsets_and_sizes_cover_the_page() -> None:
    page = Page().function(0, IP, PARENT).extend(9).text(0, IP, b"abc").function(0, IP, PARENT)
    events = decode(page).events
    assert events["offset"].tolist() == [0, 36, 60]
    assert (events["offset"] + events["size"]).tolist() == [28, 60, 88] == [28, 60, len(page.data)]


@pytest.mark.parametrize(("byteorder", "pointer_size"), LAYOUTS)
def test_fast_and_general_path_agree(byteorder: str, pointer_size: int) -> None:
    layout = PageFormat(byteorder, pointer_size)
    plain, mixed = [], []
    for number in range(5):
        one = Page(byteorder, pointer_size, stamp=number * 1_000_000)
        other = Page(byteorder, pointer_size, stamp=number * 1_000_000)
        other.discarded(12)
        for event in range(100):
            for page in (one, other):
                page.function(event * 3, IP + event, PARENT + number, pid=event)
        plain.append(one)
        mixed.append(other)
    fast = layout.decode(pages(*plain)).events
    general = layout.decode(pages(*mixed)).events
    for name in ("ts", "ip", "parent", "pid", "page", "type"):
        assert np.array_equal(fast[name], general[name]), name


def test_pages_decoded_by_different_paths_stay_in_order() -> None:
    built = []
    for number in range(6):
        page = Page(stamp=number * 100).function(0, IP + number, PARENT)
        if number % 2:
            page.text(1, IP, b"%d" % number)
        built.append(page)
    decoded = decode(*built)
    assert decoded.events["page"].tolist() == [0, 1, 1, 2, 3, 3, 4, 5, 5]
    assert decoded.events["ts"].tolist() == [0, 100, 101, 200, 300, 301, 400, 500, 501]
    assert decoded.details.texts == (b"1", b"3", b"5")


def damages() -> list[Page]:
    def good() -> Page:
        return Page(stamp=50).function(1, IP, PARENT)

    return [
        good().raw(Page().header(28, 0)),
        good().raw(Page().header(0, 0) + Page().word(0) + bytes(40)),
        good().raw(Page().header(0, 0) + Page().word(0xFFFF_FFFC) + bytes(40)),
        good().raw(Page().header(0, 0) + Page().word(13) + bytes(40)),
        good().raw(Page().header(29, 1) + Page().word(0xFFFF_FFFF)),
        good().raw(Page().header(30, 1)),
        good().raw(Page().header(0, 1)),
        good().event(0, Page().entry(1, 0, 0, 1)),
        good().event(0, Page().entry(5, 0, 0, 1) + bytes(4)),
        good().event(0, b"1234"),
        Page(stamp=50, data=good().data, commit=30),
    ]


@pytest.mark.parametrize("page", damages())
def test_a_damaged_page_gives_the_events_before_the_damage(page: Page) -> None:
    decoded = decode(page, Page(stamp=90).function(0, IP, PARENT))
    assert decoded.damaged.tolist() == [True, False]
    assert decoded.events["ts"].tolist() == [51, 90]


def test_a_commit_word_that_is_too_large_is_damage() -> None:
    page = Page(stamp=50, commit=0xF_FFF0)
    while len(page.data) < DATA_SIZE - 28:
        page.function(1, IP, PARENT)
    page.padding()
    decoded = decode(page)
    assert decoded.damaged.tolist() == [True]
    assert len(decoded.events) == DATA_SIZE // 28


def test_flags_in_the_commit_word_are_not_counted_as_bytes() -> None:
    page = Page(commit=28 | 1 << 31).function(1, IP, PARENT)
    decoded = decode(page)
    assert len(decoded.events) == 1
    assert not decoded.damaged.any()


def test_no_pages_give_no_events() -> None:
    layout = PageFormat("little", 8)
    assert len(layout.decode(np.zeros((0, 4096), np.uint8)).events) == 0
    assert len(layout.decode(np.zeros((3, 4096), np.uint8)).events) == 0
    assert list(layout.decode_all(np.zeros((0, 4096), np.uint8))) == []


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    small=st.booleans(),
    layout=st.sampled_from(LAYOUTS),
    commit=st.integers(0, 5000),
)
def test_random_bytes_are_decoded_without_an_error(
    seed: int, small: bool, layout: tuple[str, int], commit: int
) -> None:
    noise = np.random.default_rng(seed).integers(0, 40 if small else 256, (3, 4096), np.uint8)
    order = "<" if layout[0] == "little" else ">"
    noise.view(f"{order}u8")[:, 1] = commit
    decoded = PageFormat(*layout).decode(noise)
    ends = decoded.events["offset"].astype(int) + decoded.events["size"]
    assert (ends <= min(commit, DATA_SIZE)).all()
    assert (np.diff(decoded.events["page"].astype(int)) >= 0).all()
