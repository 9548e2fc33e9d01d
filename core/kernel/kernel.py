"""Loading a kernel image: its segments, and free RAM.

An executable is mapped where it is linked, with the permissions of its segments. Segments need
not begin on page boundaries and two may share a page, so the pages they touch are mapped first,
and a shared page has the permissions of both. The variable `mem_size`, if the
kernel has one, says how much free RAM is at the port's direct map.
"""

from __future__ import annotations

from ..arch import Port
from ..elf.image import Image
from ..errors import MemoryFault
from ..facts import Facts
from ..machine.host_call import STACK_SIZE
from ..machine.memory import PAGE_SIZE, Memory

KERNEL = "vmlinux.elf"
"""File name of the teaching kernel among the images of a port."""

RAM_SIZE = 16 << 20
"""Size of free RAM in bytes."""

RAM = "ram"
MEM_SIZE = "mem_size"


_TRACER_SIZE = 1 << 20
"""Bytes reserved for ftrace_caller, the tracer and trampolines."""


def _areas(facts: Facts) -> dict[str, tuple[int, int]]:
    """Return start and end of the areas in which the machine puts other things, by name."""
    area = facts.map
    return {
        "the area of modules": (area.modules, area.modules_end),
        "the far area of modules": facts.modules_far or (0, 0),
        "the tracer": (area.tracer, area.tracer + _TRACER_SIZE),
        "the machine's free RAM": (area.direct_map, area.direct_map + RAM_SIZE),
        "the ring buffer": (area.ring_buffer, area.ring_buffer + RAM_SIZE),
        "the tables of filters": (area.hashes, area.hashes_end),
        "the machine's stack": (area.host_stack, area.host_stack + STACK_SIZE),
    }


def load_kernel(port: Port, image: Image, memory: Memory) -> None:
    """Put `image` into `memory`. Raises `ImageError` if it does not fit there."""
    if image.relocatable:
        raise image.error("a kernel must be an executable, not a relocatable file")
    spans: list[tuple[int, int, tuple[bool, bool]]] = []
    for segment in sorted(image.segments, key=lambda each: each.address):
        if not segment.memsz:
            continue
        start = segment.address // PAGE_SIZE * PAGE_SIZE
        end = -(-(segment.address + segment.memsz) // PAGE_SIZE) * PAGE_SIZE
        access = segment.executable, segment.writable
        if spans and (start < spans[-1][1] or spans[-1][1:] == (start, access)):
            first, last, (code, data) = spans[-1]
            spans[-1] = (first, max(end, last), (code or access[0], data or access[1]))
        else:
            spans.append((start, end, access))
    if not spans:
        raise image.error("it has no segment to load")
    for start, end, _access in spans:
        for name, (taken, taken_end) in _areas(port.facts).items():
            if start < taken_end and taken < end:
                raise image.error(
                    f"its memory at {start:#x}-{end:#x} overlaps {name} at {taken:#x}: link it "
                    "at another address or make it smaller"
                )
    for section in image.sections:
        inside = any(low <= section.address and section.end <= high for low, high, _ in spans)
        if section.loaded and section.executable and not inside:
            raise image.error(
                f"its code at {section.address:#x} is in no loadable segment", section=section
            )
    try:
        for number, (start, end, access) in enumerate(spans):
            memory.map(start, end - start, f"kernel{number}", *access)
        for segment in image.segments:
            memory.write(segment.address, image.segment_data(segment).tobytes())
        memory.map(port.facts.map.direct_map, RAM_SIZE, RAM, executable=False)
    except MemoryFault as error:
        raise image.error(f"it cannot be loaded: {error}") from error
    address = image.symbols.address_of(MEM_SIZE)
    if address is not None:
        try:
            memory.write_int(address, RAM_SIZE)
        except MemoryFault as error:
            raise image.error(f"its variable {MEM_SIZE} is not in memory: {error}") from error
