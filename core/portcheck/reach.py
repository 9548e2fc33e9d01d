"""Checks of calls at the ends of their reach, and of calls through a stub.

The disassembler shows how far a call reaches: each bit of the instruction is inverted, and if
it remains the same instruction with another target, the bit belongs to the distance. The
least and the greatest target follow from all these bits, without the port's help.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..arch import Edit, Port, Sites
from .bench import PAGE, call_offset, call_size, decoder_of, engine, everything, is_call
from .check import DYNAMIC, MODULES, check, missing_verb
from .outcome import Absent, expect
from .subject import PortUnderTest

_NUMBER = re.compile(r"#?(-?(?:0x[0-9a-f]+|\d+))$")

REGION = 1 << 28
"""Bytes of the aligned regions at whose ends calls are tried: some jumps stay in their region."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A direct branch, decoded by the disassembler."""

    shape: str
    """The mnemonic and the operands before the target."""
    target: int


@dataclass(frozen=True, slots=True)
class Reach:
    """The lowest and highest target of a call (inclusive), not wrapped around."""

    low: int
    high: int


def branch(port: Port, ip: int, text: bytes) -> Branch | None:
    """Return the first instruction of `text` if it ends in a number, else None."""
    decoder = decoder_of(port)
    _, _, mnemonic, operands = next(decoder.disasm_lite(text, ip, 1), (0, 0, "", ""))
    number = _NUMBER.search(operands)
    if number is None:
        return None
    bits = 8 * port.facts.pointer_size
    return Branch(f"{mnemonic} {operands[: number.start()]}", int(number[1], 0) % (1 << bits))


def reach_of(port: Port, ip: int, text: bytes) -> Reach | None:
    """Return the reach of the call that `text` at `ip` begins with; None if it is unlimited."""
    found = branch(port, ip, text)
    assert found is not None
    bits = 8 * port.facts.pointer_size
    size = min(call_size(port, text, ip), len(text))
    low = high = found.target
    for bit in range(8 * size):
        other = bytearray(text)
        other[bit // 8] ^= 1 << bit % 8
        changed = branch(port, ip, bytes(other))
        if changed is not None and changed.shape == found.shape:
            step = changed.target - found.target
            step -= (step + (1 << bits - 1) >> bits) << bits  # the nearer way around
            low, high = low + min(step, 0), high + max(step, 0)
    return None if high - low + port.facts.insn_align >= 1 << bits else Reach(low, high)


def _site(port: Port, ip: int, target: int, stub: int | None = None) -> Sites:
    stubs = {} if stub is None else {target: np.array([stub], np.uint64)}
    return Sites(np.array([ip], np.uint64), stubs)


def _edits(port: Port, ip: int, near: int, target: int) -> Iterator[tuple[str, Edit, bytes]]:
    """Yield each verb whose edit calls `target` at `ip`, and which of its texts does."""
    site = _site(port, ip, target)
    for name, edit, new in (
        ("make_call", port.make_call(site, target), True),
        ("make_nop", port.make_nop(site, target), False),
        ("modify_call", port.modify_call(site, near, target), True),
        ("modify_call", port.modify_call(site, target, near), False),
        ("update_ftrace_func", port.update_ftrace_func(ip, near, target), True),
        ("update_ftrace_func", port.update_ftrace_func(ip, target, near), False),
    ):
        yield name, edit, edit.row(edit.replacement if new else edit.expected, 0)


def _graph_edit(port: Port, ip: int, target: int) -> Edit | None:
    """Return the edit of the graph slot; None if the port does not provide the verb."""
    try:
        return port.enable_graph_caller(ip, target)
    except (AttributeError, NotImplementedError) as error:
        if missing_verb(error, port) is None:
            raise
        return None


def _offset(port: Port, ip: int, near: int) -> tuple[int, bytes]:
    """Return the offset of the call in a site, and the text from there."""
    edit = port.make_call(_site(port, ip, near), near)
    at = call_offset(port, edit, 0)
    return at, edit.row(edit.replacement, 0)[at:]


@check(DYNAMIC, "reach", "calls reach as far as their instruction does")
def reach(subject: PortUnderTest) -> None:
    port = subject.port
    far = 0x1000 if port.facts.pointer_size == 4 else 0x1000_0000_0000
    edit = port.make_call(subject.sites, far)
    for row in subject.some:
        address, text = int(edit.address[row]), edit.row(edit.replacement, row)
        reached, target = bool(edit.reachable[row]), port.call_target(address, text)
        said = f"reported {'in' if reached else 'out of'} reach of {far:x}"
        leads = "nowhere" if target is None else f"to {target:x}"
        expect(reached == (target == far), f"{said}, but leads {leads}", address, b"", text)
    step = port.facts.insn_align
    for ip in (subject.base, 1 << 8 * port.facts.pointer_size - 2):
        near = ip + PAGE
        at, text = _offset(port, ip, near)
        ends = reach_of(port, ip + at, text)
        if ends is None:
            ends = Reach(step, (1 << 8 * port.facts.pointer_size) - step)
            outside: tuple[int, ...] = ()
        else:
            outside = (ends.low - step, ends.high + step)
        powers = [subject.base + at + sign * (1 << n) for n in range(6, 33) for sign in (1, -1)]
        inside = [ends.low, ends.low + step, ends.high - step, ends.high]
        inside += [target for target in powers if ends.low < target < ends.high]
        for target in (*inside, *outside):
            if 0 < target < 1 << 8 * port.facts.pointer_size:
                _try(port, ip, near, target, target in inside)
    if step > 1:
        for name, edit, text in _edits(port, ip, near, near + step // 2):
            wrong = f"{name}: a call to {near + step // 2:x} is said to reach: not aligned"
            expect(not edit.reachable[0], wrong, ip, b"", text)


def _try(port: Port, ip: int, near: int, target: int, inside: bool) -> None:
    """Raise `Failure` unless each verb says correctly whether `ip` reaches `target`."""
    edits = list(_edits(port, ip, near, target))
    slots = {"update_ftrace_func", "enable_graph_caller"}
    graph = _graph_edit(port, ip, target)
    if graph is not None:
        edits.append(("enable_graph_caller", graph, graph.row(graph.replacement, 0)))
    base = ip + _offset(port, ip, near)[0]
    for name, edit, text in edits:
        if name in slots and base != ip:  # a slot is a call without the words before it
            continue
        _said(port, name, edit, text, target, inside)


def _said(port: Port, name: str, edit: Edit, text: bytes, target: int, inside: bool) -> None:
    """Raise `Failure` unless `edit` is right about `target`, and its `text` leads there."""
    ip, reached = int(edit.address[0]), bool(edit.reachable[0])
    said = f"{name}: a call to {target:x} is reported {'in' if reached else 'out of'} reach"
    expect(reached == inside, said, ip, b"", text)
    if not inside:
        return
    at = _call_in(port, ip, text)
    found = branch(port, ip + at, text[at:])
    leads = "nowhere" if found is None else f"to {found.target:x}"
    wrong = f"{name}: the call leads {leads}, not to {target:x}, says the disassembler"
    expect(found is not None and found.target == target, wrong, ip, b"", text)
    said_target = port.call_target(ip, text)
    wrong = f"call_target returns {said_target or 0:x}, not {target:x}"
    expect(said_target == target, wrong, ip, b"", text)


def _call_in(port: Port, ip: int, text: bytes) -> int:
    """Return the offset of the first call in `text`, or 0."""
    step = max(port.facts.insn_align, 1)
    at = 0
    while at < len(text):
        if is_call(port, text[at:], ip + at):
            return at
        at += step if step > 1 else len(text)
    return 0


@check(DYNAMIC, "regions", "calls at the end of a region lead where they should")
def regions(subject: PortUnderTest) -> None:
    """Run calls at both sides of a boundary of 256 MB; the emulator knows where they go."""
    port, align = subject.port, subject.port.facts.insn_align
    middle = (subject.base // REGION + 1) * REGION
    for ip in (middle - 2 * align, middle - align, middle, middle + align):
        reached = 0
        for target in (middle - PAGE // 2, middle + PAGE // 2):
            edit = port.make_call(_site(port, ip, target), target)
            text = edit.row(edit.replacement, 0)
            if not edit.reachable[0]:
                continue
            reached += 1
            uc = engine(port, subject.base)
            uc.mem_map(middle - PAGE, 2 * PAGE)
            for each in everything(port):
                if each in (port.facts.abi.sp, port.facts.abi.link):
                    uc.reg_write(each.number, subject.base + PAGE)
            uc.mem_write(ip, text)
            at, end = ip, ip + len(text)
            while ip <= at < end:
                uc.emu_start(at, 0, count=1)
                at = int(uc.reg_read(port.facts.abi.pc.number))
            expect(at == target, f"the call goes to {at:x}, not to {target:x}", ip, b"", text)
        expect(reached, f"a call at {ip:x} reaches nothing near it", ip)


@check(MODULES, "stub calls", "a call out of reach goes to its module's stub")
def stub_calls(subject: PortUnderTest) -> None:
    """Check that every verb names the stubs that core must verify (`Edit.via`)."""
    port = subject.port
    if port.stubs is None and not port.facts.sites.linked_stubs:
        raise Absent("calls need no stubs")
    ip = subject.base
    near, stub, other = ip + PAGE, ip + 2 * PAGE, ip + 3 * PAGE
    at, text = _offset(port, ip, near)
    ends = reach_of(port, ip + at, text)
    expect(ends is not None, "a port with calls that reach everything has stubs")
    assert ends is not None
    far = ends.high + REGION
    places = {far: np.array([stub], np.uint64), far + PAGE: np.array([other], np.uint64)}
    site = Sites(np.array([ip], np.uint64), places)
    for name, edit, old, new in (
        ("make_call", port.make_call(site, far), None, stub),
        ("make_nop", port.make_nop(site, far), stub, None),
        ("modify_call", port.modify_call(site, far, far + PAGE), stub, other),
        ("modify_call", port.modify_call(site, far, near), stub, near),
        ("modify_call", port.modify_call(site, near, far), near, stub),
    ):
        expect(edit.reachable[0], f"{name}: a call through a stub is out of reach", ip)
        via = {int(each[0]) for each in edit.via} - {0}
        for text, target in (
            (edit.row(edit.expected, 0), old),
            (edit.row(edit.replacement, 0), new),
        ):
            if target is None:
                continue
            found = branch(port, ip + _call_in(port, ip, text), text[_call_in(port, ip, text) :])
            leads = "nowhere" if found is None else f"to {found.target:x}"
            wrong = f"{name}: the call leads {leads}, not to {target:x}"
            expect(found is not None and found.target == target, wrong, ip, b"", text)
            wrong = f"{name}: core is not told to verify the stub at {target:x} (Edit.via)"
            expect(target == near or target in via, wrong, ip, b"", text)
        wrong = f"{name}: Edit.via names {', '.join(f'{each:x}' for each in via)}"
        expect(via <= {stub, other}, wrong, ip)
    if port.facts.abi.toc is not None:  # even a near call needs the stub for the TOC
        text = port.make_call(_site(port, ip, near, stub), near).replacement[0].tobytes()
        found = branch(port, ip, text)
        through = found is not None and found.target == stub
        expect(through, "a call of another object does not go to its stub", ip, b"", text)
    beyond = Sites(site.ip, {far: np.array([ends.high + REGION], np.uint64)})
    for edit in (port.make_call(beyond, far), port.make_nop(beyond, far)):
        expect(not edit.reachable[0], "a stub out of reach is reported in reach", ip)


@check(DYNAMIC, "encoding", "the bit fields are those of the instruction")
def encoding(subject: PortUnderTest) -> None:
    """Compare the encoding with the bytes, and its reach with the disassembler's."""
    port = subject.port
    ip = 1 << 8 * port.facts.pointer_size - 2
    at, text = _offset(port, ip, ip + PAGE)
    text = text[: call_size(port, text, ip + at)]
    if port.has_delay_slot(text):
        text = text[: len(text) // 2]
    made = port.encoding(ip + at, text)
    if made is None:
        raise Absent("the port draws no instructions")
    size = made.size // 8
    bits = int("".join(field.bits for field in made.fields), 2)
    same = bits in (int.from_bytes(text[:size], "big"), int.from_bytes(text[:size], "little"))
    expect(size == len(text) and same, f"the fields are {bits:0{2 * size}x}", ip, b"", text)
    ends = reach_of(port, ip + at, text)
    want = None if ends is None else (ends.low, ends.high)
    said = "everywhere" if made.reach is None else " to ".join(f"{each:x}" for each in made.reach)
    wrong = f"the call reaches {said}, but the disassembler finds another reach"
    expect(made.reach == want, wrong, ip, b"", text)


CHECKS = (reach, regions, stub_calls, encoding)
