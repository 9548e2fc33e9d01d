"""Checks of the fourth tier: modules within reach of a call, and modules out of reach."""

from __future__ import annotations

import numpy as np

from ..arch import Function
from ..distinct import distinct
from .bench import PAGE, SIZE, TOC, entered, registers
from .check import MODULES, check
from .damage import all_noticed
from .outcome import Absent, expect
from .subject import PortUnderTest
from .user import User

MODULE = "usbcore"
LINKED, WIDE = "usbcore-trampoline", "usbcore-wide"
"""Variants of the module: with stubs linked into it, and with longer call sites."""

EXAMPLE = "usb_ifnum_to_if"
"""A function of the module."""

DISTANCES = (0x1000, 0x7FFC, 0x8000, 0xFFFC, 0x1234_8000, -0x8000, -0x8004, -0x1234_7FFC)
"""Distances in bytes between a stub and its target: some low halves are negative."""


@check(MODULES, "relocations", "types have names")
def relocations(subject: PortUnderTest) -> None:
    image = subject.image(f"{MODULE}.ko")
    kinds = distinct(np.concatenate([table.kind for table in image.relocations()]))
    for kind in kinds.tolist():
        name = subject.port.relocation_name(kind)
        expect(name.startswith("R_"), f"the name of relocation type {kind} is {name}, not R_…")
    unknown = subject.port.relocation_name(0xABCD)
    expect(str(0xABCD) in unknown, f"the name of the unknown type {0xABCD} is {unknown}")


@check(MODULES, "modules", "a module is loaded, traced and unloaded")
def loaded(subject: PortUnderTest) -> None:
    _traced(subject, User(subject, modules=True), far=False)


@check(MODULES, "out of reach", "a far module is traced through stubs")
def far(subject: PortUnderTest) -> None:
    port = subject.port
    if port.stubs is None:
        raise Absent("every module is in reach")
    user = User(subject)
    before = user.text()
    user.insmod(MODULE, far=True)
    row = user.row(EXAMPLE)
    module = user.session.boot.modules.loaded[0]
    expect(module.stubs, f"{MODULE} has no stubs")
    for stub in module.stubs:
        toc = stub.toc
        code = stub.code
        leads = port.stubs.target(stub.address, code, toc)
        to = "nowhere" if leads is None else f"to {leads:x}"
        wrong = f"the stub of {stub.symbol} leads {to}, not to {stub.target:x}"
        expect(leads == stub.target, wrong, stub.address, b"", code)
    site = user.session.call_site(user.session.boot.ftrace.records.ip_of(row))
    expect(site.via is not None, f"the call of {EXAMPLE} uses no stub")
    user("rmmod usbcore")
    _traced(subject, user, far=True)
    user.same_text(before)


@check(MODULES, "damaged stub", "a stub with unexpected bytes is refused")
def damaged(subject: PortUnderTest) -> None:
    port = subject.port
    if port.stubs is None and not port.facts.sites.linked_stubs:
        raise Absent("every module is in reach")
    user = User(subject)
    user.insmod(MODULE if port.stubs is not None else LINKED, far=True)
    used = all_noticed(subject, user, user.row(EXAMPLE))
    expect(used, f"the call of {EXAMPLE} uses no stub")
    stubs = user.session.boot.modules.loaded[0].stubs
    address = next(stub.address for stub in stubs if stub.symbol == "ftrace_caller")
    user.session.poke(address, bytes.fromhex("deadbeef"))
    before = user.text()
    error = user.refused("echo function > current_tracer")
    named = "the stub of ftrace_caller" in error
    expect(named, f"the error does not name the stub: {error.strip()}", address)
    user.same_text(before)


@check(MODULES, "stub code", "a stub jumps to its target and keeps what it must")
def stub_code(subject: PortUnderTest) -> None:
    """Run stubs at several distances from their target, and from the TOC pointer, if any."""
    port, stubs = subject.port, subject.port.stubs
    if stubs is None:
        raise Absent("every module is in reach")
    abi, address = port.facts.abi, subject.base + PAGE
    made = 0
    for distance in DISTANCES:
        target, toc = address + distance, address - distance - (distance >> 3)
        code = stubs.make(address, Function(target, TOC if abi.toc else None), toc)
        expect(len(code) == stubs.facts.size, f"it has {len(code)} bytes", address, b"", code)
        leads = stubs.target(address, code, toc)
        wrong = f"the stub of {target:x} leads to {leads or 0:x}, says target"
        expect(leads == target, wrong, address, b"", code)
        called = entered(subject, subject.base, subject.base)
        called.mem_write(address, code)
        if not subject.base <= target < subject.base + SIZE:
            called.mem_map(target // PAGE * PAGE, PAGE)
        if abi.toc is not None:
            called.reg_write(abi.toc.register.number, toc)
        before = registers(called, port)
        at, steps = address, 0
        while at != target and steps < 2 * stubs.facts.size:
            inside = address <= at < address + stubs.facts.code
            wrong = f"the stub jumps to {at:x}, not to {target:x}"
            expect(inside, wrong, address, b"", code)
            called.emu_start(at, 0, count=1)
            at, steps = int(called.reg_read(abi.pc.number)), steps + 1
        after = registers(called, port)
        free = {abi.pc.name} | (abi.volatile.keys() - {each.name for each in abi.arguments})
        if abi.toc is not None:
            free.add(abi.toc.register.name)
            now = after[abi.toc.register.name]
            expect(now == TOC, f"the TOC pointer is {now:x}, not {TOC:x}", address, b"", code)
            frame = bytes(called.mem_read(before[abi.sp.name], abi.call_frame))
            kept = toc.to_bytes(8, "big") in frame or toc.to_bytes(8, "little") in frame
            expect(kept, "the stub does not save the TOC pointer", address, b"", code)
        for name in before.keys() - free:
            wrong = f"the stub changes {name} from {before[name]:x} to {after[name]:x}"
            expect(before[name] == after[name], wrong, address, b"", code)
        made += 1
        for offset in range(0, stubs.facts.code, max(port.facts.insn_align, 1)):
            stubs.target(address, code[:offset], toc)  # must not raise, whatever it finds
    expect(made, "no stub can be made")


def _traced(subject: PortUnderTest, user: User, far: bool) -> None:
    """Load the module, trace it with the kernel, unload it, and compare the text."""
    before = user.text()
    user.insmod(MODULE, far=far)
    own = user.text()
    longest = _longest(user)
    if (user.session.port.images() / f"{WIDE}.ko").is_file():
        user.insmod(WIDE)
        longest = max(longest, _longest(user))
        user(f"rmmod {WIDE}")
    size = user.session.port.facts.sites.size
    expect(longest == size, f"the longest site has {longest} bytes, not {size}")
    all_noticed(subject, user, user.row(EXAMPLE))
    user("echo > trace; echo function > current_tracer; run usb 2")
    events = [line.partition(": ")[2].partition(" <-")[0] for line in user.events()]
    mine = sum(f"{user.prefix}usb_" in event for event in events)
    expect(mine, f"no function of {MODULE} is traced")
    expect(mine < len(events), "no function of the kernel is traced")
    user("echo nop > current_tracer")
    user.same_text(own)
    user(f"rmmod {MODULE}")
    user.alive()
    user.same_text(before)


def _longest(user: User) -> int:
    """Return the size in bytes of the longest call site."""
    records = user.session.boot.ftrace.records
    return int(user.session.port.lengths(records.sites(slice(None))).max())


CHECKS = (relocations, loaded, far, damaged, stub_code)
