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
from ..machine.memory import Memory
from .fit import RAM_SIZE, areas
from .placed import address_of, spans

KERNEL = "vmlinux.elf"
"""File name of the teaching kernel among the images of a port."""

RAM = "ram"
MEM_SIZE = "mem_size"


def load_kernel(port: Port, image: Image, memory: Memory) -> None:
    """Put `image` into `memory`. Raises `ImageError` if it does not fit there."""
    if image.relocatable:
        raise image.error("a kernel must be an executable, not a relocatable file")
    kernel = spans(image)
    if not kernel:
        raise image.error("it has no segment to load")
    for span in kernel:
        for name, (taken, taken_end) in areas(port).items():
            if span.start < taken_end and taken < span.end:
                raise image.error(
                    f"its memory at {span.start:#x}-{span.end:#x} overlaps {name} at {taken:#x}: "
                    "link it at another address or make it smaller"
                )
    for section in image.sections:
        inside = any(span.start <= section.address and section.end <= span.end for span in kernel)
        if section.loaded and section.executable and not inside:
            raise image.error(
                f"its code at {section.address:#x} is in no loadable segment", section=section
            )
    try:
        for number, span in enumerate(kernel):
            access = span.executable, span.writable
            memory.map(span.start, span.end - span.start, f"kernel{number}", *access)
        for segment in image.segments:
            memory.write(address_of(image, segment), image.segment_data(segment).tobytes())
        memory.map(port.facts.map.direct_map, RAM_SIZE, RAM, executable=False)
    except MemoryFault as error:
        raise image.error(f"it cannot be loaded: {error}") from error
    address = image.symbols.address_of(MEM_SIZE)
    if address is not None:
        try:
            memory.write_int(address, RAM_SIZE)
        except MemoryFault as error:
            raise image.error(f"its variable {MEM_SIZE} is not in memory: {error}") from error
