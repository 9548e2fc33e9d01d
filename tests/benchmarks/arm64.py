"""The cost of the two words at the start of each arm64 function, in two forms.

Linux leaves `mov x9, x30` and a nop at a disabled site, so that enabling it changes one word. It
could also leave two nops and change both. A reviewer of the patch asked for this benchmark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from dynftrace import arches
from dynftrace.core.arch import Port
from dynftrace.core.asm.assemble import assemble
from dynftrace.core.elf.image import Image

from .guest import ALLOCATIONS, LIMIT, boot, disable_sites
from .measure import Row, paired

KERNEL = "arm64"
LOOP = 0xFFFF_8000_0F00_0000

MOV, NOPS, PLAIN = "mov x9, x30; nop", "nop; nop", "no instrumentation"
"""The states of all sites."""


def rows() -> Iterator[Row]:
    """Compare `mov x9, x30` with two nops, and each with a kernel built without sites."""
    port = arches.load(KERNEL)
    works = {state: _work(port, state) for state in (MOV, NOPS, PLAIN)}
    for one, other in ((MOV, NOPS), (MOV, PLAIN), (NOPS, PLAIN)):
        pair = paired(works[one], works[other], rounds=15)
        yield Row(
            f"{ALLOCATIONS:,} x kmalloc and kfree, arm64: {one}",
            f"{pair.a * 1e3:.0f} ms",
            pair.ratio,
            other,
            "(no target)",
            True,
        )


def _work(port: Port, state: str) -> Callable[[], None]:
    """Boot a kernel whose sites are in `state`; return a run of its allocations."""
    name = "vmlinux-plain.elf" if state == PLAIN else "vmlinux.elf"
    image = Image.load(port.images() / name, port.facts)
    nops = partial(disable_sites, image=image)
    machine = boot(port, image, nops) if state == MOV else boot(port, image)
    source = (
        "stp x29, x30, [sp, -32]!; mov x29, sp; stp x19, x20, [sp, 16]; "
        f"mov w19, {ALLOCATIONS & 0xFFFF}; movk w19, {ALLOCATIONS >> 16}, lsl 16; "
        "again: mov x0, 64; mov w1, wzr; bl __kmalloc; bl kfree; "
        "subs w19, w19, 1; b.ne again; "
        "mov x0, xzr; ldp x19, x20, [sp, 16]; ldp x29, x30, [sp], 32; ret"
    )
    machine.memory.map(LOOP, 4096, "loop")
    machine.memory.write(LOOP, assemble(port.facts, source, LOOP, image.symbols.address_of).code)

    def run() -> None:
        assert machine.requests.call(LOOP, limit_ns=LIMIT) == 0

    return run
