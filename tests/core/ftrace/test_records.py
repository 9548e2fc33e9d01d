"""The record table: order, lookup, modules, and the pages that the kernel would use."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynftrace.core.ftrace.ops import FtraceHash, FtraceOps
from dynftrace.core.ftrace.records import Flag, Records, page_groups

TEXT = 0xFFFF_FFFF_8100_0000
MODULE = 0xFFFF_FFFF_A000_0000


def ips(*offsets: int, base: int = TEXT) -> np.ndarray:
    return np.array([base + offset for offset in offsets], np.uint64)


def compiled(count: int) -> np.ndarray:
    return np.arange(count * 5, dtype=np.uint8).reshape(count, 5)


@pytest.fixture
def records() -> Records:
    records = Records(5)
    records.add(ips(0x20, 0x10, 0x30), ["b", "a", "c"], compiled(3))
    records.add(ips(0x40, 0, base=MODULE), ["y", "x"], compiled(2), "late")
    records.add(ips(0x40, base=MODULE - 0x1000), ["z"], compiled(1), "later")
    return records


def test_the_kernel_comes_first_then_modules_in_load_order(records: Records) -> None:
    assert records.names == ["a", "b", "c", "x", "y", "z"]
    assert records.module_names() == [None, None, None, "late", "late", "later"]
    assert records.compiled[0].tolist() == [5, 6, 7, 8, 9], "bytes must move with their record"


def test_a_record_is_found_only_by_its_exact_ip(records: Records) -> None:
    assert records.find(TEXT + 0x20) == 1
    assert records.find(MODULE + 0x40) == 4
    assert records.find(TEXT + 0x21) is None
    assert records.rows_of(ips(0x30, 5, 0x10)).tolist() == [2, -1, 0]
    assert Records(5).find(TEXT) is None


@pytest.mark.parametrize("rows", [[0, 1, 2], [1], [2, 0, 1], [0, 2], [1, 1, 2], [3, 2, 1], []])
def test_sites_are_those_of_the_rows_in_their_order(records: Records, rows: list[int]) -> None:
    sites = records.sites(np.array(rows, np.intp))
    assert sites.ip.tolist() == [records.ip_of(row) for row in rows]
    assert sites.compiled.tolist() == [records.compiled[row].tolist() for row in rows]
    sites.compiled[:] = 0
    assert records.compiled[:3].any(axis=1).all(), "a batch does not share the records' memory"


def test_a_module_takes_its_records_with_it(records: Records) -> None:
    generation = records.generation
    gone = records.remove("late")
    assert gone.tolist() == ips(0, 0x40, base=MODULE).tolist()
    assert records.names == ["a", "b", "c", "z"]
    assert records.module_of(3) == "later"
    assert records.find(MODULE) is None
    assert records.generation != generation
    records.add(ips(8, base=MODULE), ["again"], compiled(1), "late")
    assert records.module_names() == [None, None, None, "later", "late"]


def test_flags_keep_users_and_state_apart(records: Records) -> None:
    records.table["flags"][1] = 3 | Flag.ENABLED | Flag.TOUCHED
    assert records.users.tolist() == [0, 3, 0, 0, 0, 0]
    assert records.flagged(Flag.ENABLED).tolist() == [False, True] + [False] * 4


@pytest.mark.parametrize(
    ("count", "groups"),
    [(0, []), (1, [1]), (256, [1]), (257, [2]), (1024, [4]), (1025, [4, 1]), (2000, [8])],
)
def test_groups_are_powers_of_two_of_pages_with_256_records(count: int, groups: list[int]) -> None:
    assert page_groups(count, 16) == groups


@given(count=st.integers(0, 200_000))
def test_no_page_is_left_empty(count: int) -> None:
    assert sum(page_groups(count, 16)) == -(-count // 256)


def test_pages_are_counted_for_each_load_and_freed(records: Records) -> None:
    assert (records.pages, records.groups) == (3, 3)
    records.remove("later")
    assert (records.pages, records.groups) == (2, 2)


# Hashes

sets = st.sets(st.integers(0, 20))


def hash_of(values: set[int]) -> FtraceHash:
    return FtraceHash.of(np.array(sorted(values), np.uint64))


@given(a=sets, b=sets)
def test_a_hash_is_a_set(a: set[int], b: set[int]) -> None:
    everything = np.arange(25, dtype=np.uint64)
    assert set(np.flatnonzero(hash_of(a).contains(everything)).tolist()) == a
    assert hash_of(a).add(hash_of(b).ips) == hash_of(a | b)
    assert hash_of(a).discard(hash_of(b).ips) == hash_of(a - b)


@given(chosen=sets, not_chosen=sets)
def test_an_empty_filter_means_everything_and_notrace_always_wins(
    chosen: set[int], not_chosen: set[int]
) -> None:
    ops = FtraceOps("f", 1, hash_of(chosen), hash_of(not_chosen))
    everything = np.arange(25, dtype=np.uint64)
    expected = (chosen or set(range(25))) - not_chosen
    assert set(np.flatnonzero(ops.matches(everything)).tolist()) == expected


def test_a_filter_whose_module_was_unloaded_matches_nothing() -> None:
    chosen = hash_of({1, 2})
    left = chosen.forget(np.array([1, 2, 3], np.uint64))
    assert len(left) == 0 and not left.empty
    assert not FtraceOps("f", 1, left).matches(np.arange(5, dtype=np.uint64)).any()
    assert chosen.discard(chosen.ips).empty, "an emptied filter must match everything again"
