"""Checks of the fourth tier: modules within reach of a call, and modules out of reach."""

from __future__ import annotations

import numpy as np

from .check import MODULES, check
from .outcome import Absent, expect
from .subject import PortUnderTest
from .user import User

MODULE = "usbcore"
EXAMPLE = "usb_ifnum_to_if"
"""A function of it."""


@check(MODULES, "relocations", "types have names")
def relocations(subject: PortUnderTest) -> None:
    image = subject.image(f"{MODULE}.ko")
    kinds = np.unique(np.concatenate([table.kind for table in image.relocations()]))
    for kind in kinds.tolist():
        name = subject.port.relocation_name(kind)
        expect(name.startswith("R_"), f"the name of relocation type {kind} is {name}, not R_…")
    unknown = subject.port.relocation_name(0xABCD)
    expect(str(0xABCD) in unknown, f"the name of the unknown type {0xABCD} is {unknown}")


@check(MODULES, "modules", "a module is loaded, traced and unloaded")
def loaded(subject: PortUnderTest) -> None:
    _traced(User(subject, modules=True), far=False)


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
    _traced(user, far=True)
    user.same_text(before)


@check(MODULES, "damaged stub", "a stub with unexpected bytes is refused")
def damaged(subject: PortUnderTest) -> None:
    port = subject.port
    if port.stubs is None:
        raise Absent("every module is in reach")
    user = User(subject)
    user.insmod(MODULE, far=True)
    stubs = user.session.boot.modules.loaded[0].stubs
    address = next(stub.address for stub in stubs if stub.symbol == "ftrace_caller")
    user.session.poke(address, bytes.fromhex("deadbeef"))
    before = user.text()
    error = user.refused("echo function > current_tracer")
    named = "the stub of ftrace_caller" in error
    expect(named, f"the error does not name the stub: {error.strip()}", address)
    user.same_text(before)


def _traced(user: User, far: bool) -> None:
    """Load the module, trace it with the kernel, unload it, and compare the text."""
    before = user.text()
    user.insmod(MODULE, far=far)
    own = user.text()
    user.row(EXAMPLE)
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


CHECKS = (relocations, loaded, far, damaged)
