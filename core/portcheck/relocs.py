"""Checks of the port's relocations, without the ABI's table: trials show how each type behaves.

Each type is applied to many values. The bits changed by powers of two are its field. The field's
size gives the range that the type may accept: signed, unsigned, or either. Nothing may be stored
that looks like another value, except by a type that truncates by its name. Branches are decoded by
the disassembler as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..arch import Port, Relocations
from ..errors import ModuleError, RelocationOverflow, UnknownRelocation
from .bench import call_size, is_call
from .check import MODULES, check
from .outcome import Absent, Failure, expect
from .reach import branch, reach_of
from .subject import PortUnderTest

MODULE = "usbcore"

PLACE, TOC = 0x0800_0000, 0x0900_0000
"""Addresses of the field and of the TOC pointer."""

SIZE, _BEFORE = 24, 8
"""Bytes of the section, and of its part before the field."""

_LAST = 1100
"""Highest number of a relocation type for relocatable files in any ABI."""

TRUNCATES = re.compile(r"_(LO\w*|\w*NC|HIGHER)$")
"""Names of types that store a part of a value and ignore the rest."""


class Trial:
    """One type of relocation, applied to a section of a few bytes."""

    def __init__(self, port: Port, kind: int, explicit: bool) -> None:
        self.port, self.kind, self.explicit = port, kind, explicit
        self.bits = 8 * port.facts.pointer_size
        self.name = port.relocation_name(kind)
        self.origin = 0
        """What to add to a value to get the symbol: the place, if the type is relative."""
        self._known: dict[int, int | None] = {}

    def made(self, symbol: int, place: int = PLACE, addend: int = 0, toc: int = TOC) -> Relocations:
        """Return one relocation of the field."""
        row = (self.kind, _BEFORE, place, symbol % (1 << self.bits), addend)
        return batch(row, explicit=self.explicit, toc=toc)

    def stored(self, value: int) -> int | None:
        """Return the section as a number, zeros before, or None if the value overflows."""
        if value not in self._known:
            self._known[value] = self.applied(value)
        return self._known[value]

    def applied(
        self,
        value: int,
        text: bytes = bytes(SIZE),
        place: int = PLACE,
        toc: int = TOC,
        addend: int = 0,
    ) -> int | None:
        """Return the section `text` as a number, or None if the value overflows."""
        section = np.frombuffer(text, np.uint8).copy()
        made = self.made(value + self.origin, place, addend, toc)
        try:
            self.port.relocate("check", section, made)
        except RelocationOverflow as overflow:
            self._is_typed(overflow, place)
            same = section.tobytes() == text
            expect(same, f"{self.name} overflows, but changes the section", place)
            return None
        return int.from_bytes(section.tobytes(), "big")

    def _is_typed(self, overflow: RelocationOverflow, place: int) -> None:
        wrong = f"the overflow of {self.name} names {overflow.kind} at {overflow.location:x}"
        expect(overflow.kind == self.name and overflow.location == place, wrong, place)


def batch(*rows: tuple[int, int, int, int, int], explicit: bool, toc: int = 0) -> Relocations:
    """Make relocations from rows of type, offset, place, symbol and addend."""
    kind, offset, place, _, addend = (np.array(each) for each in zip(*rows, strict=True))
    nothing = np.zeros(len(rows), np.bool_)
    return Relocations(
        kind.astype(np.uint32),
        offset.astype(np.uint64),
        place.astype(np.uint64),
        np.array([row[3] for row in rows], np.uint64),
        addend.astype(np.int64),
        external=nothing,
        stub=nothing,
        toc=toc,
        explicit=explicit,
    )


@dataclass(frozen=True, slots=True)
class Shape:
    """The behaviour of a type, as the trials show it."""

    unit: int
    """The least power of two that it accepts."""
    shift: int
    """Number of the value's bit that becomes the field's lowest bit."""
    half: int
    """Rounding term added before the lower bits are dropped: half their range, or 0."""
    weights: dict[int, int]
    """The bits of the section that each bit of the value changes."""
    mask: int
    """All bits of the section that the type changes."""

    @property
    def width(self) -> int:
        """Size of the field in bits."""
        return self.mask.bit_count()


def shape_of(trial: Trial) -> Shape | None:
    """Return the behaviour of a type; None if it does not depend on the symbol."""
    zero = trial.stored(0)
    if zero is None:
        return None
    changes = {}
    unit = refused = 0
    for bit in range(trial.bits):
        found = trial.stored(1 << bit)
        if found is None:
            refused += unit > 0
            if refused == 2:
                break
            continue
        unit = unit or 1 << bit
        if found != zero:
            changes[bit] = found ^ zero
    if not changes:
        return None
    first = min(changes)
    rounds = changes[first] == changes.get(first + 1)
    shift = first + rounds
    weights = {bit: change for bit, change in changes.items() if bit >= shift}
    mask = 0
    for change in weights.values():
        mask |= change
    below = trial.stored(-(1 << shift))
    mask |= 0 if below is None else below ^ zero
    half = 0
    if rounds:  # all halves of the parts below, each of which is signed
        half = next(
            value
            for value in (0x8000 * sum(1 << 16 * n for n in range(count)) for count in (1, 2, 3, 4))
            if value.bit_length() == shift
        )
    return Shape(unit, shift, half, weights, mask)


def shapes(subject: PortUnderTest) -> list[tuple[Trial, Shape]]:
    """Return each type that can be applied alone and depends on the symbol."""
    key = "shapes of relocations"
    if key not in subject.shared:
        pairs = ((trial, shape_of(trial)) for trial in _trials(subject))
        subject.shared[key] = [(trial, shape) for trial, shape in pairs if shape is not None]
    made: list[tuple[Trial, Shape]] = subject.shared[key]
    return made


def _trials(subject: PortUnderTest) -> Iterator[Trial]:
    explicit = _explicit(subject)
    away = 0x0101_0101_0101_1000 if subject.port.facts.pointer_size == 8 else 0x0101_1000
    for kind in range(1, _LAST):
        trial = Trial(subject.port, kind, explicit)
        if trial.name.endswith(f"_{kind}"):  # not a name
            continue
        try:
            here, there = trial.applied(PLACE), trial.applied(PLACE + away, place=PLACE + away)
            by_toc = trial.applied(TOC), trial.applied(TOC + away, toc=TOC + away)
        except UnknownRelocation as unknown:
            expect(unknown.kind == trial.name, f"the unknown type {trial.name} is {unknown.kind}")
            continue
        except ModuleError:  # it needs another relocation
            continue
        if here is not None and here == there:
            trial.origin = PLACE
        elif by_toc[0] is not None and by_toc[0] == by_toc[1]:
            trial.origin = TOC
        yield trial


def _explicit(subject: PortUnderTest) -> bool:
    return next(
        (table.addend is not None for table in subject.image(f"{MODULE}.ko").relocations()), True
    )


@check(MODULES, "relocation fields", "each type changes the right bits")
def fields(subject: PortUnderTest) -> None:
    for trial, shape in shapes(subject):
        zero = trial.stored(0) or 0
        low, high = shape.shift, shape.shift + shape.width
        for bit, change in shape.weights.items():
            one = change.bit_count() == 1 or bit >= high
            wrong = f"{trial.name}: bit {bit} of the value changes {change.bit_count()} bits"
            expect(one, wrong, PLACE)
        name = trial.name
        expect(shape.half or not name.endswith("_HA"), f"{name} does not round", PLACE)
        expect(not shape.half or not name.endswith("_HI"), f"{name} rounds", PLACE)
        inside = [change for bit, change in shape.weights.items() if bit < high]
        wrong = f"{trial.name}: several bits of the value are stored in the same place"
        expect(len({*inside}) == len(inside), wrong, PLACE)
        keeps = ~shape.mask % (1 << 8 * SIZE)
        other = keeps.to_bytes(SIZE, "big")
        for value in (shape.unit, -shape.unit, 0x1234 * shape.unit):
            plain, found = trial.stored(value), trial.applied(value, other)
            wrong = f"{trial.name} with {value:#x} changes bits outside of its field"
            same = plain is None or plain == zero | plain & shape.mask
            expect(same and found == (None if plain is None else plain | keeps), wrong, PLACE)
        for value in _samples(trial, shape):
            bits = value + shape.half
            want = zero
            top = shape.mask
            for bit in range(low, high - 1):
                top &= ~shape.weights.get(bit, 0)
                want |= shape.weights.get(bit, 0) if bits >> bit & 1 else 0
            want |= top if bits >> high - 1 & 1 else 0
            found = trial.stored(value)
            wrong = f"{trial.name} stores the wrong bits of {value:#x}"
            expect(found is None or found == want, wrong, PLACE)
        _addends(trial, shape)


def _samples(trial: Trial, shape: Shape) -> list[int]:
    """Return values inside and at the ends of the range."""
    top = 1 << shape.shift + shape.width - 1
    values = [0x8000, 0x7FFF, -0x8000, -0x8001, -1]
    values += [top - shape.unit - shape.half, -top - shape.half, 2 * top - shape.unit]
    values += [0x1234_5678_9ABC_DEF0 % top, 0x1234_5678_9ABC_DEF0 % top - top]
    limit = 1 << trial.bits - 1
    return [value - value % shape.unit for value in values if -limit <= value < limit]


def _addends(trial: Trial, shape: Shape) -> None:
    """Raise `Failure` unless an addend has the same effect as adding it to the symbol."""
    top = 1 << min(shape.shift + shape.width - 1, trial.bits - 1)
    for addend in (-shape.unit, top // 4):
        addend -= addend % shape.unit
        if not addend:
            continue
        for value in (shape.unit, top // 2 - top // 2 % shape.unit):
            want = trial.stored(value + addend)
            if trial.explicit:
                found = trial.applied(value, addend=addend)
            else:
                text = trial.stored(addend)  # the distance is the addend itself
                if text is None or 1 << shape.shift > shape.unit:
                    continue
                found = trial.applied(value, text.to_bytes(SIZE, "big"))
            wrong = f"{trial.name} ignores or misreads its addend {addend:#x}"
            expect(found == want, wrong, PLACE)


@check(MODULES, "relocation overflow", "a value that does not fit is refused")
def overflow(subject: PortUnderTest) -> None:
    for trial, shape in shapes(subject):
        high = shape.shift + shape.width
        top = 1 << high - 1
        unit, half = shape.unit, shape.half
        last = top - unit - half
        expect(trial.stored(last) is not None, f"{trial.name} refuses {last:#x}, which fits", PLACE)
        if high >= trial.bits or TRUNCATES.search(trial.name):
            continue
        if not half and trial.stored(top) is not None:  # unsigned, or either
            refused = (2 * top, -top - unit)
            last = 2 * top - unit
            wrong = f"{trial.name} refuses {last:#x}, which fits"
            expect(trial.stored(last) is not None, wrong, PLACE)
        else:
            refused = (top - half, -top - half - unit)
            least = -top - half
            wrong = f"{trial.name} refuses {least:#x}, which fits"
            expect(trial.stored(least) is not None, wrong, PLACE)
        beyond = {high, high + 1, (high + trial.bits) // 2, trial.bits - 2}
        for value in (*refused, *(1 << bit for bit in sorted(beyond) if bit < trial.bits - 1)):
            wrong = f"{trial.name} accepts {value:#x}, which does not fit {shape.width} bits"
            expect(trial.stored(value) is None, wrong, PLACE)
    expect(shapes(subject), "no relocation type can be applied")


@check(MODULES, "relocation errors", "nothing is written before an error")
def errors(subject: PortUnderTest) -> None:
    port = subject.port
    if not shapes(subject):
        raise Absent("no relocation type can be applied")
    good = shapes(subject)[0][0]
    first = (good.kind, 0, PLACE, PLACE, 0)
    name, unknown = port.relocation_name(0xABCD), (0xABCD, 8, PLACE + 8, 0, 0)
    rows: list[tuple[str, type[ModuleError], tuple[int, int, int, int, int]]] = [
        (f"the unknown type {name}", UnknownRelocation, unknown),
        (f"{good.name} after the section", ModuleError, (good.kind, SIZE, PLACE, 0, 0)),
        (f"{good.name} far after the section", ModuleError, (good.kind, 1 << 40, PLACE, 0, 0)),
    ]
    for what, kind, row in rows:
        text = np.arange(SIZE, dtype=np.uint8)
        before = text.tobytes()
        try:
            port.relocate("check", text, batch(first, row, explicit=good.explicit))
        except kind:
            same = text.tobytes() == before
            expect(same, f"{what} is refused after another relocation is written", PLACE)
            continue
        except Exception as error:
            raise Failure(f"{what} raises {type(error).__name__}, not {kind.__name__}") from error
        expect(False, f"{what} is not refused", PLACE)


@check(MODULES, "call relocations", "calls lead to their symbols")
def calls(subject: PortUnderTest) -> None:
    """Relocate a call of a module as the compiler left it; the disassembler decodes it."""
    port = subject.port
    bits, step = 8 * port.facts.pointer_size, port.facts.insn_align
    for kind in sorted(port.facts.sites.call_relocations):
        call = _call(subject, kind)
        if call is None:
            continue
        text, field, addend = call
        name = port.relocation_name(kind)

        def relocated(
            symbol: int,
            text: bytes = text,
            row: tuple[int, int, int] = (kind, field, addend or 0),
            explicit: bool = addend is not None,
        ) -> bytes:
            section = np.frombuffer(text, np.uint8).copy()
            kind, offset, by = row
            place = subject.base + offset
            made = batch((kind, offset, place, symbol % (1 << bits), by), explicit=explicit)
            port.relocate("check", section, made)
            return section.tobytes()

        near = relocated(subject.base + 0x1000)
        ends = reach_of(port, subject.base, near)
        good = [subject.base + 0x1000, subject.base - 0x1000]
        beyond: list[int] = []
        if ends is not None:
            good = [ends.low, ends.low + step, subject.base + 0x1000, ends.high - step, ends.high]
            beyond = [ends.low - step, ends.high + step]
        for symbol in [each for each in good if 0 <= each < 1 << bits]:
            data = relocated(symbol)
            found = branch(port, subject.base, data)
            leads = "nowhere" if found is None else f"to {found.target:x}"
            wrong = f"{name}: a call of {symbol:x} leads {leads}"
            same = found is not None and found.target == symbol
            expect(same and is_call(port, data, subject.base), wrong, subject.base, b"", data)
        for symbol in [each for each in beyond if 0 <= each < 1 << bits]:
            try:
                data = relocated(symbol)
            except RelocationOverflow:
                continue
            expect(False, f"{name}: {symbol:x} is accepted", subject.base, b"", data)


def _call(subject: PortUnderTest, kind: int) -> tuple[bytes, int, int | None] | None:
    """Return a direct call with a relocation of `kind`, the field's offset, and the addend."""
    port = subject.port
    files = [subject.image(name) for name in (f"{MODULE}.ko", "tracer.o")]
    for image, table in [(file, table) for file in files for table in file.relocations()]:
        if not table.target.executable:
            continue
        data = image.data(table.target).tobytes()
        for row in np.flatnonzero(table.kind == kind)[:20].tolist():
            addend = None if table.addend is None else int(table.addend[row])
            at = int(table.offset[row])
            start = at + port.facts.sites.relocation_offset
            text = data[start : start + 16].ljust(16, b"\0")
            if branch(port, subject.base, text) is None or not is_call(port, text, subject.base):
                continue
            field = at - start
            if addend in (None, 0, field - call_size(port, text, start)):  # of the symbol itself
                return text, field, addend
    return None


CHECKS = (fields, overflow, errors, calls)
