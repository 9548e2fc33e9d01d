"""What each site has to call, given its users, and the changes that follow."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dynftrace import arches
from dynftrace.core.errors import FtraceBugType
from dynftrace.core.ftrace.entry import CALLER, REGS_CALLER
from dynftrace.core.ftrace.ops import FtraceHash, FtraceOps
from dynftrace.core.ftrace.records import Flag, Records
from dynftrace.core.ftrace.targets import NOP, Targets

TEXT = 0xFFFF_FFFF_8100_0000
IPS = TEXT + 16 * np.arange(6, dtype=np.uint64)
PLAIN, REGS, OWN, OTHER = (0xFFFF_FFFF_9000_0000 + 0x100 * n for n in range(4))
PORT = arches.load("x86_64")


def targets() -> tuple[Records, Targets]:
    records = Records(5)
    records.add(IPS, [f"f{n}" for n in range(len(IPS))], np.zeros((len(IPS), 5), np.uint8))
    return records, Targets(records, {CALLER: PLAIN, REGS_CALLER: REGS})


def user(rows: set[int], save_regs: bool = False) -> FtraceOps:
    chosen = FtraceHash.of(IPS[sorted(rows)]) if rows else FtraceHash(gone=1)
    return FtraceOps("user", 1, chosen, save_regs=save_regs)


def test_the_users_of_a_site_decide_what_it_calls() -> None:
    records, some = targets()
    some.count([user({0, 1}), user({1, 2}, True), user({3})], [OWN, OTHER, 0])
    assert some.wanted().tolist() == [OWN, REGS, OTHER, PLAIN, NOP, NOP]
    assert some.current().tolist() == [NOP] * 6
    assert records.users.tolist() == [1, 2, 1, 1, 0, 0]
    assert records.flagged(Flag.TRAMP).tolist() == [True, False, True, False, False, False]
    assert some.of(5) == PLAIN and some.of(1) == REGS


def test_changes_are_in_order_and_recorded() -> None:
    records, some = targets()
    for ops, tramps in (
        ([user({0, 1, 2})], [0]),
        ([user({0, 3}), user({1, 3}, True)], [OWN, OTHER]),
    ):
        some.count(ops, tramps)
        changes = some.changes(PORT)
        for change in changes:
            some.done(change)
    assert [(each.type, each.old, each.new, each.rows.tolist()) for each in changes] == [
        (FtraceBugType.CALL, NOP, REGS, [3]),
        (FtraceBugType.UPDATE, PLAIN, OWN, [0]),
        (FtraceBugType.UPDATE, PLAIN, OTHER, [1]),
        (FtraceBugType.NOP, PLAIN, NOP, [2]),
    ]
    assert not some.changes(PORT)
    assert [some.of(row) for row in range(3)] == [OWN, OTHER, PLAIN]
    assert records.flagged(Flag.REGS_EN).tolist() == [False, True, False, True, False, False]
    assert [records.caller_of(row) for row in (0, 3)] == ["ftrace_trampoline", REGS_CALLER]


@given(
    st.lists(
        st.lists(st.tuples(st.sets(st.integers(0, 5)), st.booleans(), st.booleans()), max_size=3)
    )
)
def test_after_all_changes_each_site_calls_its_target(
    steps: list[list[tuple[set[int], bool, bool]]],
) -> None:
    records, some = targets()
    for users in steps:
        ops = [user(rows, regs) for rows, regs, _ in users]
        tramps = [OWN + 0x100 * n if has else 0 for n, (_, _, has) in enumerate(users)]
        some.count(ops, tramps)
        for change in some.changes(PORT):
            assert change.old != change.new
            some.done(change)
        assert (some.current() == some.wanted()).all()
        tramp = np.uint32(Flag.TRAMP | Flag.TRAMP_EN)
        both = records.table["flags"] & tramp
        assert np.isin(both, (0, tramp)).all()
        for row in range(len(IPS)):
            mine = [n for n, (rows, _, _) in enumerate(users) if row in rows]
            regs = any(users[n][1] for n in mine)
            shared = REGS if regs else PLAIN
            own = tramps[mine[0]] if len(mine) == 1 else 0
            assert int(some.current()[row]) == (own or shared if mine else NOP)
