"""Enabling and disabling 40,000 call sites at once, against moving the same bytes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dynftrace import arches
from dynftrace.core.ftrace.ops import FtraceOps
from dynftrace.core.session.session import MachineSpec, Session

from ..support import elf_writer
from .measure import Limit, Row, at_most, paired

SITES = 40_000

FLOOR = Limit(
    16,
    "encoding, records, and a second comparison before writing take 5 x; the slots of "
    "ftrace_caller, which change one by one, 3 x; the rest is transactions",
)


def rows() -> Iterator[Row]:
    """Compare patching all sites at once with a write and a flush for each site."""
    port = arches.load(arches.DEFAULT)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vmlinux"
        path.write_bytes(elf_writer.kernel(SITES))
        session = Session.open(port, MachineSpec(kernel=path))
    ftrace = session.boot.ftrace
    ops = FtraceOps("bench", ftrace.entry["function_trace_call"])
    ips = ftrace.records.table["ip"].tolist()
    machine = session.boot.machine
    width = port.facts.sites.size
    disabled = [machine.memory.read(ip, width) for ip in ips]

    def toggle() -> None:
        ftrace.register(ops)
        ftrace.unregister(ops)

    def one_by_one() -> None:
        for ip, text in zip(ips, disabled, strict=True):
            machine.memory.write(ip, text)
            machine.flush(ip, ip + width)

    ftrace.register(ops)
    assert int(np.count_nonzero(ftrace.records.users)) == SITES
    ftrace.unregister(ops)
    pair = paired(toggle, one_by_one)
    yield Row(
        "enable and verify 40,000 sites",
        f"{pair.a / 2 * 1e3:.1f} ms",
        pair.ratio / 2,
        "write and flush one by one, unverified",
        "<= 50 ms",
        pair.a / 2 <= 0.050,
    )
    disabled_text = np.frombuffer(b"".join(disabled), np.uint8).reshape(SITES, width)
    ftrace.register(ops)
    enabled_text = np.frombuffer(b"".join(machine.memory.read(ip, width) for ip in ips), np.uint8)
    enabled_text = enabled_text.reshape(SITES, width)
    ftrace.unregister(ops)
    (text,) = [each for each in machine.memory.regions if each.address <= ips[0] < each.end]
    at = np.array(ips, np.uint64) - np.uint64(text.address)
    places = at.astype(np.intp)[:, None] + np.arange(width)
    copy = text.bytes.copy()

    def moved() -> None:
        for old, new in ((disabled_text, enabled_text), (enabled_text, disabled_text)):
            assert (copy[places] == old).all()
            copy[places] = new

    pair = paired(toggle, moved)
    yield at_most(
        "enable and verify 40,000 sites",
        f"{pair.a / 2 * 1e3:.1f} ms",
        pair.ratio,
        "gather, compare and scatter the same bytes",
        2,
        FLOOR,
    )
