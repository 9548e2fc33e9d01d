"""The address map that suits a kernel: where the machine's own areas go.

A port's `AddressMap` is laid out around its teaching kernel, and any other kernel that leaves
those areas free gets the same one. For any other kernel, each area in its way moves to the nearest
free place that serves the same purpose: code that the kernel's text branches to stays within reach
of all the text, and inside the window of the code model; the far area of modules stays out of
reach; data goes anywhere. The port's own encoder says how far a branch reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from ..abi import LOCAL_PAGE_SIZE, LOCAL_PAGES
from ..arch import Port
from ..elf.image import Image
from ..facts import AddressMap
from ..machine.buffers import AREA, OFFSET
from ..machine.memory import PAGE_SIZE
from .placed import Span, spans

RAM_SIZE = 16 << 20
"""Size of free RAM in bytes."""

TRACER_SIZE = 1 << 20
"""Bytes reserved for ftrace_caller, the tracer and trampolines."""

LEAST_MODULES = 1 << 20
"""Smallest area for modules, in bytes."""

STEP = 1 << 20
"""Alignment of a moved area, in bytes."""

CALLS = OFFSET + AREA
"""Bytes for calls by the machine: stacks, strings and buffers."""

COLOUR = 0x2_0000
"""Bytes from a boundary of `STEP` to a moved tracer, a multiple of 64 kB.

Pages at round addresses share their entry of the engine's TLB with others that are in use at
each traced call.
"""

Wanted = Callable[[int, int], bool]
"""Whether an area may be at [start, end)."""


@dataclass(eq=False)
class _Space:
    """The address space, with its occupied ranges."""

    low: int
    high: int
    taken: list[tuple[int, int]] = field(default_factory=list)

    def free(self, start: int, end: int) -> bool:
        """Return whether nothing occupies [start, end)."""
        return (
            self.low <= start
            and end <= self.high
            and not any(start < last and first < end for first, last in self.taken)
        )

    def place(self, preferred: int, size: int, near: int, wanted: Wanted, shift: int = 0) -> int:
        """Take `size` bytes at `preferred` or at the free place nearest to `near`; -1 if none."""
        for start in (preferred, *sorted(self._gaps(size, shift), key=lambda at: abs(at - near))):
            if self.free(start, start + size) and wanted(start, start + size):
                self.taken.append((start, start + size))
                return start
        return -1

    def _gaps(self, size: int, shift: int) -> Iterator[int]:
        """Yield a place after and a place before each occupied range."""
        for first, last in [*self.taken, (self.high, self.low)]:
            yield -(-last // STEP) * STEP + shift
            yield (first - size - shift) // STEP * STEP + shift


def fitted(port: Port, image: Image) -> Port:
    """Return `port` with an address map into which the kernel `image` fits.

    Raises `ImageError`, naming the area that has no room, if there is no such map.
    """
    kernel = spans(image)
    area = port.facts.map
    if not kernel or not _in_the_way(port, kernel):
        return port
    space = _space(port, kernel)
    code = [(span.start, span.end) for span in kernel if span.executable]
    code = code or [(span.start, span.end) for span in kernel]
    low, high = min(start for start, _ in code), max(end for _, end in code)
    where = f"kernel at {kernel[0].start:#x}-{kernel[-1].end:#x}"

    def near(start: int, end: int) -> bool:
        """Whether code in [start, end) and the kernel's can call each other."""
        ends = min(start, low), max(end, high)
        window = area.window
        return (not window or ends[0] // window == (ends[1] - 1) // window) and (
            _reaches(port, ends[0], ends[1] - PAGE_SIZE)
            and _reaches(port, ends[1] - PAGE_SIZE, ends[0])
        )

    def place(what: str, preferred: int, size: int, wanted: Wanted, shift: int = 0) -> int:
        beside = high if wanted is near else preferred
        at = space.place(preferred, size, beside, wanted, shift)
        if at < 0:
            reach = " within reach of its code" if wanted is near else ""
            raise image.error(
                f"the {where} leaves no room for {what}: {size >> 10} kB are needed{reach}; "
                "link it at another address or make it smaller"
            )
        return at

    tracer = place("the tracer", area.tracer, TRACER_SIZE, near, COLOUR)
    modules, modules_end = area.modules, area.modules_end
    beside_tracer = near if _reaches(port, area.tracer, area.modules) else _anywhere
    size = modules_end - modules
    while True:
        at = space.place(modules, size, high if beside_tracer is near else modules, beside_tracer)
        if at >= 0:
            break
        if size <= LEAST_MODULES:
            at = place("modules", modules, size, beside_tracer)
        size //= 2
    modules, modules_end = at, at + size
    far = port.facts.modules_far
    if far is not None:
        room = far[1] - far[0]

        def distant(start: int, end: int) -> bool:
            return not _reaches(port, start, high) and not _reaches(port, end, low)

        start = place("the far area of modules", far[0], room, distant)
        far = start, start + room
    hashes = area.hashes_end - area.hashes
    ring = place("the ring buffer", area.ring_buffer, RAM_SIZE, _anywhere)
    tables = place("the tables of filters", area.hashes, hashes, _anywhere)
    ram = place("the machine's free RAM", area.direct_map, RAM_SIZE, _anywhere)
    stack = place("the machine's stack", area.host_stack, CALLS, _anywhere)
    changed = replace(
        area,
        tracer=tracer,
        modules=modules,
        modules_end=modules_end,
        ring_buffer=ring,
        hashes=tables,
        hashes_end=tables + hashes,
        direct_map=ram,
        host_stack=stack,
    )
    return port.with_map(changed, far)


def areas(port: Port) -> dict[str, tuple[int, int]]:
    """Return start and end of the machine's own areas, by name."""
    area = port.facts.map
    return {
        "the area of modules": (area.modules, area.modules_end),
        "the far area of modules": port.facts.modules_far or (0, 0),
        "the tracer": (area.tracer, area.tracer + TRACER_SIZE),
        "the machine's free RAM": (area.direct_map, area.direct_map + RAM_SIZE),
        "the ring buffer": (area.ring_buffer, area.ring_buffer + RAM_SIZE),
        "the tables of filters": (area.hashes, area.hashes_end),
        "the machine's stack": (area.host_stack, area.host_stack + CALLS),
        "the CPU-local pages": _local(area),
    }


def _in_the_way(port: Port, kernel: list[Span]) -> bool:
    """Whether `kernel` overlaps an area of `port`, or its code does not reach the tracer."""
    code = [span for span in kernel if span.executable] or kernel
    return any(
        span.start < end and start < span.end
        for span in kernel
        for start, end in areas(port).values()
    ) or not all(
        _reaches(port, place, port.facts.map.tracer + offset)
        for place in (code[0].start, code[-1].end - PAGE_SIZE)
        for offset in (0, TRACER_SIZE - PAGE_SIZE)
    )


def _reaches(port: Port, place: int, target: int) -> bool:
    """Whether a branch at `place` reaches `target`."""
    edit = port.update_ftrace_func(place, target, target)
    return bool(edit.reachable.all())


def _space(port: Port, kernel: list[Span]) -> _Space:
    """Return the addresses that may be used, without those of `kernel` and the local pages."""
    area = port.facts.map
    known = [start for start, _ in areas(port).values() if start]
    low = min([*known, kernel[0].start]) // STEP * STEP
    space = _Space(low, 1 << 8 * port.facts.pointer_size)
    space.taken += [(span.start, span.end) for span in kernel]
    space.taken.append(_local(area))
    return space


def _local(area: AddressMap) -> tuple[int, int]:
    return area.local, area.local + LOCAL_PAGES * LOCAL_PAGE_SIZE


def _anywhere(start: int, end: int) -> bool:
    return True
