"""Loading a kernel image: its segments, and free RAM.

An executable is mapped where it is linked. Segments need not begin on page boundaries and two
may share a page, so the pages they touch are mapped first. The variable `mem_size`, if the
kernel has one, says how much free RAM is at the port's direct map.
"""

from __future__ import annotations

from ..arch import Port
from ..elf.image import Image
from ..errors import MemoryFault
from ..machine.memory import PAGE_SIZE, Memory

KERNEL = "vmlinux.elf"
"""File name of the teaching kernel among the images of a port."""

RAM_SIZE = 16 << 20
"""Size of free RAM in bytes."""

RAM = "ram"
MEM_SIZE = "mem_size"


def load_kernel(port: Port, image: Image, memory: Memory) -> None:
    """Put `image` into `memory`. Raises `ImageError` if it does not fit there."""
    if image.relocatable:
        raise image.error("a kernel must be an executable, not a relocatable file")
    spans: list[tuple[int, int, bool]] = []
    for segment in sorted(image.segments, key=lambda each: each.address):
        if not segment.memsz:
            continue
        start = segment.address // PAGE_SIZE * PAGE_SIZE
        end = -(-(segment.address + segment.memsz) // PAGE_SIZE) * PAGE_SIZE
        code = segment.executable
        if spans and (start < spans[-1][1] or spans[-1][1:] == (start, code)):
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]), code or spans[-1][2])
        else:
            spans.append((start, end, code))
    if not spans:
        raise image.error("it has no segment to load")
    area, far = port.facts.map, port.facts.modules_far
    for start, end, _code in spans:
        for modules, modules_end in ((area.modules, area.modules_end), far or (0, 0)):
            if start < modules_end and modules < end:
                raise image.error(f"it is linked at {start:#x}, in the area of modules")
    for section in image.sections:
        inside = any(low <= section.address and section.end <= high for low, high, _ in spans)
        if section.loaded and section.executable and not inside:
            raise image.error(
                f"its code at {section.address:#x} is in no loadable segment", section=section
            )
    try:
        for number, (start, end, code) in enumerate(spans):
            memory.map(start, end - start, f"kernel{number}", code)
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
