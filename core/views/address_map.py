"""The address space drawn to scale, with the window that a call reaches.

Regions that are near each other share a scale; an address space of 64 bits has several such
groups, exabytes apart. A call encodes a distance, or the low bits of an address, so targets outside
its window need a stub.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..abi import LOCAL_PAGE_SIZE, LOCAL_PAGES
from ..ftrace.entry import CALLER, REGION
from ..ftrace.ftrace import Ftrace
from ..machine.memory import Memory
from ..modules.module import Module
from .drawing import Bar, Drawing, Row, Section
from .encoding import EncodingReader, away

_APART = 1 << 30
"""Minimum gap in bytes at which the next region begins another scale."""


@dataclass(frozen=True, slots=True)
class Place:
    """A part of the address space with one purpose."""

    name: str
    start: int
    end: int
    sign: str
    tone: str


@dataclass(frozen=True, slots=True)
class AddressSpace:
    """The places of a machine by address, and the window of one call."""

    places: tuple[Place, ...]
    digits: int
    """Hexadecimal digits of an address."""
    call: str = ""
    """The function of the call; "" without a call."""
    ip: int | None = None
    reach: tuple[int, int] | None = None
    """First and last address that it can reach; None if it reaches every address."""


class MapReader:
    """Reads the address space of one machine."""

    def __init__(
        self,
        ftrace: Ftrace,
        memory: Memory,
        encodings: EncodingReader,
        modules: Callable[[], Sequence[Module]],
    ) -> None:
        self._ftrace = ftrace
        self._memory = memory
        self._encodings = encodings
        self._modules = modules

    def at(self, ip: int | None) -> AddressSpace:
        """Return the address space, with the window of the call at `ip` if given.

        Raises what `EncodingReader.site` raises.
        """
        ftrace = self._ftrace
        digits = 2 * ftrace.port.facts.pointer_size
        if ip is None:
            return AddressSpace(self._places(), digits)
        row = ftrace.records.find(ip)
        name = "" if row is None else ftrace.records.names[row]
        reach = self._encodings.reach(ip)
        return AddressSpace(self._places(), digits, name, ip, reach)

    def _places(self) -> tuple[Place, ...]:
        facts, entry = self._ftrace.port.facts, self._ftrace.entry
        found: list[Place] = []
        for region in self._memory.regions:
            name, sign, tone = _kind(region.name, region.executable)
            last = found[-1] if found else None
            if last is not None and last.name == name and region.address == last.end:
                found[-1] = Place(name, last.start, region.end, sign, tone)
            else:
                found.append(Place(name, region.address, region.end, sign, tone))
        end = entry.address + len(entry.code)
        found.append(Place(CALLER, entry[CALLER], end, "@", "accent"))
        stubs = {stub.address: stub for stub in self._ftrace.records.stubs}
        for module in self._modules():
            own = [stub for at, stub in stubs.items() if module.contains(at)]
            if own:
                first = min(stub.address for stub in own)
                last_end = max(stub.address + len(stub.code) for stub in own)
                found.append(Place(f"stubs of {module.name}", first, last_end, "s", "mark"))
        local = facts.map.local
        size = LOCAL_PAGES * LOCAL_PAGE_SIZE
        found.append(Place("CPU-local pages", local, local + size, "c", "dim"))
        return tuple(sorted(found, key=lambda each: (each.start, -each.end)))


def _kind(name: str, code: bool) -> tuple[str, str, str]:
    """Return the label, sign and tone of the memory `name`."""
    if name.startswith("kernel"):
        return ("kernel text", "K", "good") if code else ("kernel data", "k", "dim")
    if name.startswith("module "):
        return f"module {name.split()[1]}", "M", "link"
    if name.startswith(REGION):
        return "tracer", "T", "strong"
    if name.startswith("ring_buffer"):
        return f"ring buffer {name[len('ring_buffer') :].partition('.')[0]}", "r", "dim"
    if name.startswith("instance"):
        return name.partition("@")[0].replace("_", " "), "i", "dim"
    if name == "ram":
        return "direct map", ".", "dim"
    return name.replace("_", " ").rstrip("0123456789"), "x", "dim"


def map_drawing(space: AddressSpace) -> Drawing:
    """Return the picture of an address space."""
    title = "address space"
    if space.ip is not None:
        title = f"address space, seen from the call in {space.call} at {space.ip:x}"
        title += ", which reaches every address" if space.reach is None else ""
    sections = []
    before: int | None = None
    for low, high, places in _groups(space):
        apart = "" if before is None else f"{away(low - before)} higher"
        rows = [_window(space, low, high)] if space.reach is not None else []
        rows += [_row(space, low, high, place) for place in places]
        top = (1 << 4 * space.digits) - 1
        left, right = (f"{min(at, top):0{space.digits}x}" for at in (low, high))
        sections.append(Section(apart, tuple(rows), left, right))
        before = high
    return Drawing(title, tuple(sections))


def _groups(space: AddressSpace) -> list[tuple[int, int, list[Place]]]:
    """Return the groups of places: first and last address, and the places.

    The group around the call includes its window, and what is within it.
    """
    parts = [(place.start, place.end, [place]) for place in space.places]
    if space.reach is not None:
        parts.append((space.reach[0], space.reach[1] + 1, []))
    groups: list[tuple[int, int, list[Place]]] = []
    for start, end, places in sorted(parts, key=lambda part: part[0]):
        if groups and start - groups[-1][1] < _APART:
            low, high, before = groups[-1]
            groups[-1] = low, max(high, end), [*before, *places]
        else:
            groups.append((start, end, places))
    return groups


def _window(space: AddressSpace, low: int, high: int) -> Row:
    """Return the row with the call and the window that it reaches."""
    assert space.reach is not None and space.ip is not None
    first, last = space.reach
    if last < low or first >= high:
        return Row("reach", (), "nothing here", "bad")
    size = high - low
    start, end = (max(first, low) - low) / size, (min(last + 1, high) - low) / size
    bars = [Bar(start, end, "-", "accent")]
    if low <= space.ip < high:
        at = (space.ip - low) / size
        bars.append(Bar(at, at, "^", "bad"))
    ends = f"{away(first - space.ip)} to {away(last - space.ip)}"
    return Row("reach", tuple(bars), ends, "accent")


def _row(space: AddressSpace, low: int, high: int, place: Place) -> Row:
    size = high - low
    bar = Bar((place.start - low) / size, (place.end - low) / size, place.sign, place.tone)
    note = f"{place.start:x} {away(place.end - place.start)[1:]}"
    tone = ""
    if space.reach is not None and space.ip is not None:
        first, last = space.reach
        inside = first <= place.start <= last
        far = away(place.start - space.ip)
        if place.start <= space.ip < place.end:
            note += "  the call"
        else:
            note += f"  {'' if inside else '✗ '}{far}"
        tone = "" if inside else "bad" if place.name == CALLER else "dim"
    return Row(place.name, (bar,), note, tone)
