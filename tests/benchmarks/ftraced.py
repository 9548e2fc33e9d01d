"""The cost of call sites in 2008, in each of their states."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dynftrace import arches
from dynftrace.core.arch import Port, Sites
from dynftrace.core.elf.image import Image
from dynftrace.core.ftrace.sites import calls_of_mcount
from dynftrace.core.machine.machine import Machine

from .guest import ALLOCATIONS, allocations, boot
from .measure import Row, paired

KERNEL = "x86_64-2008"

STATES = {
    "pointer": "mcount, looking at a pointer",
    "jmp": "a jmp over the call",
    "nop": "nops",
}
"""The states of all sites, in historical order, as in the table."""


def rows() -> Iterator[Row]:
    """Compare each state with the same kernel without sites, then the first with the last."""
    port = arches.load(KERNEL)
    plain = Image.load(port.images() / "vmlinux-plain.elf", port.facts)
    image = Image.load(port.images() / "vmlinux.elf", port.facts)
    reference = allocations(boot(port, plain), plain)
    works = {state: allocations(_kernel(port, image, state), image) for state in STATES}
    for state in STATES:
        pair = paired(works[state], reference, rounds=7)
        yield Row(
            f"{ALLOCATIONS:,} x kmalloc and kfree, 2008: {state}",
            f"{pair.a * 1e3:.0f} ms",
            pair.ratio,
            "the same kernel built without sites",
            "<= 1.05" if state == "nop" else "(no target)",
            state != "nop" or pair.ratio <= 1.05,
        )
    for state in ("jmp", "nop"):
        pair = paired(works["pointer"], works[state], rounds=7)
        yield Row(
            f"2008: {STATES['pointer']}",
            f"{pair.a * 1e3:.0f} ms",
            pair.ratio,
            STATES[state],
            "> 1 x",
            pair.ratio > 1,
        )


def _kernel(port: Port, image: Image, state: str) -> Machine:
    """Boot the kernel of 2008 with all sites in one state, and without patching."""
    sites = Sites(calls_of_mcount(port, image, lambda at, size: _text(image, at, size)))
    compiled = np.array([np.frombuffer(_text(image, ip, 5), np.uint8) for ip in sites.ip.tolist()])
    sites = Sites(sites.ip, compiled=compiled)
    mcount, indirect = (_address(image, name) for name in ("mcount", "mcount_indirect"))
    if state == "pointer":
        # As compiled before sites could be patched: mcount itself checks for a tracer.
        edit = port.modify_call(sites, mcount, indirect)
    else:
        edit = port.with_nop(state).init_nop(sites, mcount)
    assert edit.reachable.all() and len(sites) > 500

    def patch(machine: Machine) -> None:
        machine.memory.scatter(edit.address, edit.replacement)

    return boot(port, image, patch)


def _text(image: Image, address: int, size: int) -> bytes:
    text = image.read(address, size)
    assert text is not None
    return text.tobytes()


def _address(image: Image, name: str) -> int:
    address = image.symbols.address_of(name)
    assert address is not None
    return address
