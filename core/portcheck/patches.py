"""Checks of the third tier: the edits of a site (ftrace_make_nop, ftrace_make_call, …)."""

from __future__ import annotations

import numpy as np

from ..arch import Bytes, Edit, Sites
from .bench import (
    BACK,
    PAGE,
    STACK,
    call_offset,
    engine,
    everything,
    is_call,
    put,
    registers,
    run_to,
)
from .check import DYNAMIC, check
from .outcome import Failure, expect, same_text
from .reach import branch
from .subject import PortUnderTest


def _shaped(edit: Edit, count: int) -> None:
    """Raise `Failure` unless the arrays of `edit` have the shapes for `count` sites."""
    expect(edit.expected.ndim == 2, f"expected has {edit.expected.ndim} dimensions, not 2")
    shape = (count, edit.expected.shape[1])
    for name, text in (("expected", edit.expected), ("replacement", edit.replacement)):
        expect(text.shape == shape, f"{name} has shape {text.shape}, not {shape}")
        expect(text.dtype == np.uint8, f"{name} has dtype {text.dtype}, not uint8")
    for name, column in (("address", edit.address), ("reachable", edit.reachable)):
        expect(column.shape == (count,), f"{name} has shape {column.shape}, not {(count,)}")


def _same(edit: Edit, found: Bytes, expected: Bytes, reason: str) -> None:
    """Raise `Failure` for the first row in which two texts of `edit` differ."""
    wrong = f"{reason}: shape {found.shape}, not {expected.shape}"
    expect(found.shape == expected.shape, wrong)
    differ = (found != expected).any(axis=1)
    if differ.any():
        row = int(np.argmax(differ))
        raise Failure(reason, int(edit.address[row]), edit.row(expected, row), edit.row(found, row))


@check(DYNAMIC, "init", "ftrace_dyn_arch_init expects the actual bytes")
def init(subject: PortUnderTest) -> None:
    port, labels = subject.port, subject.kernel.symbols
    mcount = labels.address_of(port.facts.sites.mcount_symbols[0]) or 0
    edit = port.dyn_arch_init(mcount, subject.base)
    if edit is None:
        return
    _shaped(edit, 1)
    address, expected = int(edit.address[0]), edit.row(edit.expected, 0)
    found = subject.read(address, len(expected))
    same_text("the kernel does not hold the expected bytes", address, expected, found)
    text = edit.row(edit.replacement, 0)
    to = branch(port, address, text)
    expect(edit.reachable[0], "ftrace_caller is out of reach of mcount", address, b"", text)
    leads = to is not None and to.target == subject.base
    expect(leads, "mcount does not lead to ftrace_caller", address, b"", text)


@check(DYNAMIC, "init_nop", "a compiled site becomes a nop")
def init_nop(subject: PortUnderTest) -> None:
    port, sites = subject.port, subject.sites
    mcount = subject.kernel.symbols.address_of(port.facts.sites.mcount_symbols[0])
    expect(mcount is not None, f"the kernel does not define {port.facts.sites.mcount_symbols[0]}")
    edit = port.init_nop(sites, mcount or 0)
    _shaped(edit, len(sites))
    text = subject.texts(edit.address, edit.expected.shape[1])
    _same(edit, text, edit.expected, "init_nop expects other bytes than the kernel has")
    far = ~edit.reachable
    expect(not far.any(), "the site cannot be disabled", int(edit.address[int(np.argmax(far))]))
    enable = port.make_call(sites, subject.base)
    _strict(subject, mcount or 0)
    wrong = "init_nop writes another nop than make_call expects"
    _same(edit, edit.replacement[:, edit.lead :], enable.expected, wrong)


def _strict(subject: PortUnderTest, mcount: int) -> None:
    """Raise `Failure` if init_nop accepts any text as what the compiler left."""
    port, sites = subject.port, subject.sites
    for row in subject.few:
        compiled = sites.compiled[row : row + 1]
        for at in range(int(port.lengths(sites)[row])):
            damaged = compiled.copy()
            damaged[0, at] ^= 0x81
            site = Sites(sites.ip[row : row + 1], compiled=damaged)
            edit = port.init_nop(site, mcount)
            expected = edit.row(edit.expected, 0)[edit.lead :]
            found = damaged[0].tobytes()[: len(expected)]
            wrong = f"init_nop expects the text damaged at +{at:#x}"
            expect(found != expected or not edit.reachable[0], wrong, int(site.ip[0]), b"", found)


@check(DYNAMIC, "make_call", "a nop becomes a call to ftrace_caller")
def make_call(subject: PortUnderTest) -> None:
    port, sites, caller = subject.port, subject.sites, subject.base
    edit = port.make_call(sites, caller)
    _shaped(edit, len(sites))
    same = (edit.replacement == edit.expected).all(axis=1)
    first = int(edit.address[int(np.argmax(same))])
    expect(not same.any(), "the enabled and the disabled text are the same", first)
    for row in subject.some:
        address, text = int(edit.address[row]), edit.row(edit.replacement, row)
        target = port.call_target(address, edit.replacement[row].tobytes())
        leads = "nowhere" if target is None else f"to {target:x}"
        wrong = f"the call leads {leads}, not to {caller:x}"
        expect(target == caller, wrong, address, b"", text)
        at = call_offset(port, edit, row)
        seen = is_call(port, edit.replacement[row, at:].tobytes(), address + at)
        expect(seen, "the disassembler finds no call", address, b"", text)


@check(DYNAMIC, "make_nop", "a call becomes a nop again")
def make_nop(subject: PortUnderTest) -> None:
    port, sites, caller = subject.port, subject.sites, subject.base
    enable, disable = port.make_call(sites, caller), port.make_nop(sites, caller)
    _shaped(disable, len(sites))
    _same(disable, disable.expected, enable.replacement, "make_nop expects another call")
    _same(disable, disable.replacement, enable.expected, "make_nop writes another nop")
    for row in subject.some:
        address, text = int(disable.address[row]), disable.row(disable.replacement, row)
        target = port.call_target(address, disable.replacement[row].tobytes())
        expect(target is None, f"the nop leads to {target or 0:x}", address, b"", text)
        at = call_offset(port, disable, row)
        seen = is_call(port, disable.replacement[row, at:].tobytes(), address + at)
        expect(not seen, "the disassembler finds a call in the nop", address, b"", text)


@check(DYNAMIC, "nops", "a call replaces each kind of nop")
def nops(subject: PortUnderTest) -> None:
    port, sites, caller = subject.port, subject.sites, subject.base
    mcount = subject.kernel.symbols.address_of(port.facts.sites.mcount_symbols[0]) or 0
    for name in port.facts.nops:
        other = port.with_nop(name)
        enable, disable = other.make_call(sites, caller), other.make_nop(sites, caller)
        first = other.init_nop(sites, mcount)
        wrong = f"{name}: make_nop writes another nop"
        _same(disable, disable.replacement, enable.expected, wrong)
        wrong = f"{name}: make_nop expects another call"
        _same(disable, disable.expected, enable.replacement, wrong)
        wrong = f"{name}: init_nop writes another nop"
        _same(first, first.replacement[:, first.lead :], enable.expected, wrong)
    try:
        port.with_nop("no such nop")
    except ValueError:
        return
    expect(False, "with_nop accepts a name that is not in `nops`")


@check(DYNAMIC, "modify_call", "a call changes its target")
def modify_call(subject: PortUnderTest) -> None:
    port, sites = subject.port, subject.sites
    old, new = subject.base, subject.base + 0x40
    edit = port.modify_call(sites, old, new)
    _shaped(edit, len(sites))
    before, after = port.make_call(sites, old), port.make_call(sites, new)
    _same(edit, edit.expected, before.replacement, "modify_call expects another old call")
    _same(edit, edit.replacement, after.replacement, "modify_call writes another new call")


@check(DYNAMIC, "batches", "one site and many are encoded the same way")
def batches(subject: PortUnderTest) -> None:
    port, sites, caller = subject.port, subject.sites, subject.base
    before = sites.ip.copy()
    many = port.make_call(sites, caller)
    expect((sites.ip == before).all(), "make_call changes the array that it is given")
    lengths, shape = port.lengths(sites), (len(sites),)
    expect(lengths.shape == shape, f"lengths has shape {lengths.shape}, not {shape}")
    verbs = (many, port.make_nop(sites, caller), port.modify_call(sites, caller, caller + 0x40))
    for edit in verbs:
        covered = edit.expected.shape[1] if edit.lengths is None else edit.lengths
        short = covered != lengths
        row = int(np.argmax(short))
        ip, text = int(sites.ip[row]), edit.row(edit.expected, row)
        wrong = f"an edit compares {len(text)} bytes, but the site has {lengths[row]}"
        expect(not short.any(), wrong, ip, b"", text)
    for row in (0, len(sites) - 1):
        one = Sites(sites.ip[row : row + 1], compiled=sites.compiled[row : row + 1])
        edit = port.make_call(one, caller)
        expected, found = many.row(many.replacement, row), edit.row(edit.replacement, 0)
        wrong = "the site is encoded differently alone than with the others"
        same_text(wrong, int(sites.ip[row]), expected, found)
    _shaped(port.make_call(Sites(sites.ip[:0]), caller), 0)


@check(DYNAMIC, "update_ftrace_func", "the slots can call a tracer")
def update_ftrace_func(subject: PortUnderTest) -> None:
    port, base, labels = subject.port, subject.base, subject.labels
    tracer = base + 0x800
    for caller in subject.callers:
        slot = subject.slot_of(caller)
        edit = port.update_ftrace_func(slot, labels["ftrace_stub"], tracer)
        _shaped(edit, 1)
        address, expected = int(edit.address[0]), edit.row(edit.expected, 0)
        code = subject.entry.code[address - base : address - base + len(expected)]
        same_text("the slot does not call ftrace_stub", address, expected, code)
        text = edit.row(edit.replacement, 0)
        leads = port.call_target(address, text)
        expect(leads == tracer, "the new call does not lead to the tracer", address, b"", text)


@check(DYNAMIC, "explain", "a refused site has at most one clause of explanation")
def explain(subject: PortUnderTest) -> None:
    """Damage each byte of a disabled and of an enabled site."""
    port = subject.port
    edit = port.make_call(subject.sites, subject.base)
    ip = int(edit.address[0])
    for text in (edit.row(edit.expected, 0), edit.row(edit.replacement, 0)):
        others = [bytes((*text[:at], text[at] ^ 0x81, *text[at + 1 :])) for at in range(len(text))]
        for found in (text, *others, bytes(len(text)), b"", text[:1]):
            said = port.explain(ip, text, found)
            clause = isinstance(said, str) and "\n" not in said
            expect(clause, f"explain returns {said!r}", ip, text, found)


@check(DYNAMIC, "emulate", "emulating a site equals running it")
def emulate(subject: PortUnderTest) -> None:
    port, base = subject.port, subject.base
    abi, ip = port.facts.abi, base + PAGE
    site = Sites(np.array([ip], np.uint64))
    edit, back = (port.make_call(site, base + at) for at in (2 * PAGE, 0))
    new = engine(port, base)
    start = {
        register.name: 0x1000 + 8 * number
        for number, register in enumerate(abi.pt_regs)
        if not new.reg_read(register.number)
    }
    start |= {abi.pc.name: ip, abi.sp.name: base + STACK}
    if abi.link is not None:
        start[abi.link.name] = base + 3 * PAGE
    texts = (edit.expected[0], edit.replacement[0], back.replacement[0])
    for text in (each.tobytes() for each in texts):
        ran, done = engine(port, base), engine(port, base)
        for uc in (ran, done):
            uc.mem_write(ip, text)
            put(uc, port, start)
        run_to(ran, port, ip, port.call_target(ip, text) or ip + len(text))
        effect = port.emulate(registers(done, port), ip, text)
        put(done, port, effect.registers, effect.stores)
        for each in everything(port):
            real, said = ran.reg_read(each.number), done.reg_read(each.number)
            wrong = f"{each.name} is {real:x} when run, but {said:x} when emulated"
            expect(real == said, wrong, ip, b"", text)
        memory = [uc.mem_read(base, BACK) for uc in (ran, done)]
        wrong = "emulating the site stores other bytes than running it"
        expect(memory[0] == memory[1], wrong, ip, b"", text)


@check(DYNAMIC, "emulate other", "other text is not emulated")
def emulate_other(subject: PortUnderTest) -> None:
    port = subject.port
    values = {register.name: 0x1000 for register in port.facts.abi.pt_regs}
    text = b"\xff" * port.facts.sites.size
    try:
        port.emulate(values, 0x1000, text)
    except ValueError as error:
        expect("no call site" in str(error), f"the error does not say `no call site`: {error}")
        return
    expect(False, "text that is not a call site is emulated", 0x1000, b"", text)


CHECKS = (
    *(init, init_nop, make_call, make_nop, nops, modify_call, batches),
    *(update_ftrace_func, explain, emulate, emulate_other),
)
