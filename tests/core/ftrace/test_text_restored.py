"""After any change of filters, ops, modules and text, the kernel's text is correct.

Random sequences on the running teaching kernel. After each step the text is the text
after boot, plus the pokes, plus at each enabled site a call of the right caller.
Without ops and pokes it is the text after boot again. If sites are found as the kernel
runs, the sites found since boot are nops.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dynftrace.core.arch import Sites, trampolines_of
from dynftrace.core.errors import FtraceBug, ModuleError
from dynftrace.core.ftrace.entry import CALLER, REGS_CALLER
from dynftrace.core.ftrace.ops import FtraceHash, FtraceOps
from dynftrace.core.ftrace.records import KERNEL, Flag

from ...support.booted import Booted, boot
from ...support.ports import FAMILIES

MODULES = ("usbcore", "usbhub", "crashy")

YIELD = bytes.fromhex("3f 20 03 d5")
"""An instruction of arm64 that does nothing here and that ftrace never writes."""

rows = st.integers(0, 2000)
users = st.integers(0, 2)
step = st.one_of(
    st.tuples(st.just("register"), users),
    st.tuples(st.just("unregister"), users),
    st.tuples(st.just("filter"), users, st.sets(rows, max_size=6)),
    st.tuples(st.just("notrace"), users, st.sets(rows, max_size=6)),
    st.tuples(st.just("insmod"), st.sampled_from(MODULES)),
    st.tuples(st.just("rmmod"), st.sampled_from(MODULES)),
    st.tuples(st.just("method"), st.integers(0, 1)),
    st.tuples(st.just("run"), st.integers(1, 4)),
)
poke = st.tuples(st.just("poke"), rows)


class Sequence:
    """Runs steps on a guest and computes the expected text."""

    def __init__(self, guest: Booted) -> None:
        self.guest = guest
        self.ftrace = guest.ftrace
        self.ops = [guest.counter(str(number)) for number in range(3)]
        self.ops[2].save_regs = REGS_CALLER in guest.ftrace.entry.callers
        self.trampolines = trampolines_of(guest.port) is not None
        self.pokes: dict[int, bytes] = {}
        section = guest.kernel.section(".text")
        assert section is not None
        self.base = section.address
        if self.ftrace.ftraced is not None:
            # There are records, and a page for new ones.
            self.ftrace.ftraced.collect()
            guest.machine.requests.call(guest.address("ftrace_shutdown_replenish"))
        self.known = len(self.ftrace.records)
        self.boot = guest.text()

    def rest(self) -> bytes:
        """Return the text after boot, with nops at the sites found since."""
        text = bytearray(self.boot)
        table = self.ftrace.records.table
        rows = np.flatnonzero(table["module"] == KERNEL)[self.known :]
        nops = self.guest.port.make_nop(self.ftrace.records.sites(rows), self.base)
        self._put(text, nops.address, nops.replacement)
        return bytes(text)

    def expected(self) -> bytes:
        """Return the text after boot plus the current calls and pokes."""
        text = bytearray(self.rest())
        table = self.ftrace.records.table
        called = self.called()
        called[table["module"] != KERNEL] = 0
        for target in np.unique(called[called != 0]).tolist():
            sites = Sites(table["ip"][called == target])
            calls = self.guest.port.make_call(sites, target)
            self._put(text, calls.address, calls.replacement)
        if self.ftrace.ftraced is not None:
            slot = self.ftrace.ftraced.mcount_edit(suspended=False)
            self._put(text, slot.address, slot.expected)
        for address, poked in self.pokes.items():
            text[address - self.base : address - self.base + len(poked)] = poked
        return bytes(text)

    def called(self) -> np.ndarray:
        """Return what each site calls according to its flags; 0 for a nop."""
        records = self.ftrace.records
        regs, own = (records.flagged(flag) for flag in (Flag.REGS_EN, Flag.TRAMP_EN))
        called = np.full(len(records), self.guest.address(CALLER), np.uint64)
        if regs.any():
            called[regs] = self.guest.address(REGS_CALLER)
        called[own] = records.table["tramp_en"][own]
        called[~records.flagged(Flag.ENABLED)] = 0
        return called

    def own(self) -> dict[FtraceOps, int]:
        """Return the trampolines of the registered users that have one."""
        trampolines = self.ftrace.trampolines
        if trampolines is None or len(self.ftrace.ops) < 2:
            return {}
        return {each.ops: each.address for each in trampolines.of(self.ftrace.ops)}

    def _put(self, text: bytearray, addresses: np.ndarray, data: np.ndarray) -> None:
        for address, row in zip(addresses.tolist(), data, strict=True):
            text[address - self.base : address - self.base + len(row)] = row.tobytes()

    def check(self) -> None:
        """Check the text, and the caller of each site."""
        records, registered = self.ftrace.records, self.ftrace.ops
        wants = {ops: ops.matches(records.table["ip"]) for ops in registered}
        regs = [wants[ops] for ops in registered if ops.save_regs]
        nobody = np.zeros(len(records), np.bool_)
        assert (records.flagged(Flag.ENABLED) == np.any([nobody, *wants.values()], axis=0)).all()
        assert (records.flagged(Flag.REGS_EN) == np.any([nobody, *regs], axis=0)).all()
        own, only = self.own(), np.sum([nobody, *wants.values()], axis=0) == 1
        assert len(own) == (len(registered) if self.trampolines and len(registered) > 1 else 0)
        alone = np.any([nobody, *(wants[ops] for ops in own)], axis=0) & only
        assert (records.flagged(Flag.TRAMP_EN) == alone).all()
        for ops, address in own.items():
            assert (records.table["tramp_en"][wants[ops] & only] == address).all()
        assert self.guest.text() == self.expected()

    def do(self, name: str, *arguments: object) -> None:
        getattr(self, f"_{name}")(*arguments)

    def _hash(self, chosen: set[int]) -> FtraceHash:
        ips = self.ftrace.records.table["ip"]
        return FtraceHash.of(ips[[row % len(ips) for row in sorted(chosen)]])

    def _register(self, user: int) -> None:
        if self.ops[user] not in self.ftrace.ops:
            self.ftrace.register(self.ops[user])

    def _unregister(self, user: int) -> None:
        if self.ops[user] in self.ftrace.ops:
            self.ftrace.unregister(self.ops[user])

    def _filter(self, user: int, chosen: set[int]) -> None:
        self.ftrace.set_hashes(self.ops[user], filter_hash=self._hash(chosen))

    def _notrace(self, user: int, chosen: set[int]) -> None:
        self.ftrace.set_hashes(self.ops[user], notrace_hash=self._hash(chosen))

    def _insmod(self, name: str) -> None:
        loaded = self.guest.modules.find
        refused = bool(loaded(name)) or (name == "usbhub" and not loaded("usbcore"))
        try:
            self.guest.modules.insmod(self.guest.port.images() / f"{name}.ko")
        except ModuleError:
            assert refused
        else:
            assert not refused

    def _rmmod(self, name: str) -> None:
        loaded = self.guest.modules.find
        refused = not loaded(name) or (name == "usbcore" and bool(loaded("usbhub")))
        try:
            self.guest.modules.rmmod(name)
        except ModuleError:
            assert refused
        else:
            assert not refused

    def _method(self, number: int) -> None:
        """Use one of the methods that do not tear instructions."""
        whole = [each for each in self.guest.port.facts.patch_methods if each != "none"]
        self.ftrace.patcher.method = whole[number % len(whole)]

    def _run(self, milliseconds: int) -> None:
        self.guest.machine.run(milliseconds * 1_000_000)

    def _poke(self, row: int) -> None:
        """Write text that is harmless to run, but a mismatch for ftrace.

        It is the site's call of mcount. On arm64 the compiler leaves the nop of a disabled site.
        """
        records = self.ftrace.records
        row %= int(np.count_nonzero(records.table["module"] == KERNEL))
        ip = int(records.table["ip"][row])
        compiled = records.compiled[row].tobytes()
        self.pokes[ip] = YIELD if self.guest.port.facts.name == "arm64" else compiled
        self.guest.machine.memory.write(ip, self.pokes[ip])
        self.guest.machine.flush(ip, ip + len(self.pokes[ip]))


@pytest.mark.parametrize("arch", FAMILIES)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(step, max_size=14))
def test_undoing_everything_restores_the_text(arch: str, steps: list[tuple[str, object]]) -> None:
    sequence = Sequence(boot(arch))
    for each in steps:
        sequence.do(*each)
        sequence.check()
    for user in range(3):
        sequence.do("unregister", user)
        sequence.do("filter", user, set())
    assert not sequence.ftrace.records.flagged(Flag.ENABLED).any()
    assert sequence.guest.text() == sequence.rest()
    assert not sequence.guest.machine.oopses


@pytest.mark.parametrize("arch", FAMILIES)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(st.one_of(step, poke), max_size=14))
def test_a_bug_changes_no_byte(arch: str, steps: list[tuple[str, object]]) -> None:
    sequence = Sequence(boot(arch))
    for each in steps:
        try:
            sequence.do(*each)
        except FtraceBug as bug:
            assert bug.ip in sequence.pokes
            assert sequence.ftrace.disabled
            assert sequence.guest.text() == sequence.expected()
            break
        sequence.check()
    else:
        for ip in list(sequence.pokes):
            del sequence.pokes[ip]
            at, size = ip - sequence.base, sequence.guest.port.facts.sites.size
            sequence.guest.machine.memory.write(ip, sequence.expected()[at : at + size])
        for user in range(3):
            sequence.do("unregister", user)
        assert sequence.guest.text() == sequence.rest()
    assert not np.any(sequence.guest.machine.oopses)
