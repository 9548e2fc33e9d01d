"""Bit fields of instructions, compared with the instructions, Capstone and the verbs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from dynftrace import arches
from dynftrace.core.arch import Port, Sites
from dynftrace.core.encoding import Encoding, cut, signed, window
from dynftrace.core.views.disasm import Disassembler, Insn

from ..support.user import User, subject

DISTANCES = ("LI", "BD", "imm26", "offset", "rel32", "rel8")


@pytest.fixture(scope="module", params=arches.names())
def port(request: pytest.FixtureRequest) -> Port:
    return arches.load(request.param)


class NoNames:
    def lookup(self, address: int) -> None:
        return None


FEW = 16
"""Test the instructions of every Nth function."""


def instructions(port: Port) -> Iterator[Insn]:
    """Yield the instructions of every Nth function of the teaching kernel, without data."""
    kernel = subject(port.facts.name).kernel
    disasm, symbols = Disassembler(port.facts, NoNames()), kernel.symbols
    rows = [row for row in symbols.by_address.tolist() if symbols.functions[row]]
    starts = symbols.address[rows].tolist()
    for start, end in list(pairwise(starts))[::FEW]:
        text = kernel.read(start, end - start)
        assert text is not None
        yield from (insn for insn in disasm.decode(start, text.tobytes()) if insn.decoded)


def raw(port: Port, encoding: Encoding, size: int) -> bytes:
    """Return the bytes that the fields encode."""
    order = "big" if encoding.unit == 8 else port.facts.byteorder
    word = int("".join(field.bits for field in encoding.fields), 2)
    return word.to_bytes(size, "little" if order == "little" else "big")


def computed(insn: Insn, encoding: Encoding) -> int:
    """Return the target according to the encoding's rule."""
    names = {"ip": insn.address, "target": 0}
    for field in encoding.fields:
        value = signed(field) if field.name in DISTANCES else field.value
        if field.name.startswith("rel"):
            little = field.value.to_bytes(len(field.bits) // 8, "big")
            value = int.from_bytes(little, "little", signed=True)
        names[field.name] = value
    rule = encoding.rule.removeprefix("target = ")
    rule = rule.replace("(ip + 4 with its low 28 bits 0)", "(ip + 4 >> 28 << 28)")
    assert re.fullmatch(r"[\w +*()<>]+", rule)
    return int(eval(rule, {"__builtins__": {}}, names))


def test_the_fields_make_the_instruction_and_its_target(port: Port) -> None:
    modulus, targets, forms = 1 << 8 * port.facts.pointer_size, 0, set()
    for insn in instructions(port):
        encoding = port.encoding(insn.address, insn.data)
        if encoding is None:
            continue
        assert raw(port, encoding, len(insn.data)) == insn.data, insn
        forms.add(encoding.form)
        if encoding.reach is not None and insn.target is not None:
            targets += 1
            assert encoding.reach[0] <= insn.target <= encoding.reach[1], insn
        if encoding.rule.startswith("target = ip") or "28 bits" in encoding.rule:
            assert insn.target == computed(insn, encoding) % modulus, insn
    assert len(forms) >= 3
    assert targets > 50 or port.facts.name == "i386"  # there a call reaches every address


def test_a_call_reaches_exactly_the_range_of_its_field(port: Port) -> None:
    step = port.facts.insn_align
    ip = 1 << (8 * port.facts.pointer_size - 2)
    near = ip + 0x1000
    disasm = Disassembler(port.facts, NoNames())
    compiled = subject(port.facts.name).sites.compiled[:1]
    sites = Sites(np.array([ip], np.uint64), {}, compiled)
    edit = port.make_call(sites, near)
    call = next(i for i in disasm.decode(ip, edit.row(edit.replacement, 0)) if i.target == near)
    encoding = port.encoding(call.address, call.data)
    assert encoding is not None
    if encoding.reach is None:
        assert port.facts.pointer_size == 4 and encoding.form == "call rel32"
        return
    for target, reached in (
        *((encoding.reach[0], True), (encoding.reach[1], True)),
        *((encoding.reach[0] - step, False), (encoding.reach[1] + step, False)),
    ):
        assert bool(port.make_call(sites, target).reachable[0]) == reached, hex(target)


@pytest.mark.parametrize("module", [False, True])
def test_every_instruction_of_a_call_path_has_fields(port: Port, module: bool) -> None:
    user = User(port.facts.name)
    function = "schedule"
    if module:
        user.insmod("usbcore", far=True)
        function = "usb_ifnum_to_if"
    session, row = user.session, user.row(function)
    for tracer in ("nop", "function"):
        user(f"echo {tracer} > current_tracer")
        now = session.call_site(session.boot.ftrace.records.ip_of(row))
        insns = [
            insn
            for each in now.rows
            if each.is_site
            for code in (each.compiled, each.now)
            for insn in session.boot.disassembler.site(each.address, code.data)
        ]
        insns += [
            i
            for hop in session.call_path(session.boot.ftrace.records.ip_of(row))
            if hop.label == "stub"
            for i, _ in hop.insns
        ]
        known = [
            port.encoding(insn.address, insn.data) is not None for insn in insns if insn.decoded
        ]
        assert known and all(known)


def test_fields_are_split_from_the_left() -> None:
    fields = cut(0b101_01, ("a", 3, "five"), ("b", 2))
    assert [(f.name, f.bits, f.meaning, f.value) for f in fields] == [
        ("a", "101", "five", 5),
        ("b", "01", "", 1),
    ]
    assert signed(fields[0]) == -3
    with pytest.raises(ValueError, match="more than 2 bits"):
        cut(4, ("a", 2))


def test_a_window_ends_at_the_last_address() -> None:
    assert window(0x1000, 8, 4, 1 << 32) == (0xE00, 0x11FC)
    assert window(0x10, 8, 4, 1 << 32) == (0, 0x20C)
    assert window(0xFFFF_FFF0, 8, 4, 1 << 32) == (0xFFFF_FDF0, 0xFFFF_FFFC)
    assert window(0, 32, 1, 1 << 32) is None
