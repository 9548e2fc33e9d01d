"""Reports as shown in the box."""

from __future__ import annotations

import errno

import pytest

from dynftrace import arches
from dynftrace.core.errors import FtraceBug, FtraceBugType, GuestOops
from dynftrace.core.session.session import Session
from dynftrace.core.views.disasm import Insn
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.present.line import plain
from dynftrace.tui.present.reports import bug_report, oops_report

from ...support.keystone import needs_keystone

IP = 0xFFFF_FFFF_8100_0040
STEP = "Setting ftrace call site to call ftrace function"


def instructions(address: int, data: bytes) -> list[tuple[Insn, str]]:
    """Decode three bytes and the rest as instructions that name their address."""
    parts = [(address, data[:3]), (address + 3, data[3:])]
    return [(Insn(at, part, "", ""), f"insn at {at:x}") for at, part in parts]


def test_a_refused_patch() -> None:
    bug = FtraceBug(
        IP,
        errno=errno.EINVAL,
        type=FtraceBugType.CALL,
        expected=b"\x0f\x1f\x44\x00\x00",
        found=b"\x0f\xfe\x90\x00\x90",
        symbol="schedule+0x0/0x80",
        reason="Not expected bl: opcode is 90909090",
        report=("------------[ ftrace bug ]------------", "ftrace failed to modify ", STEP),
    )
    report = bug_report(bug, instructions, hex)
    assert [plain(each).rstrip() for each in report.lines] == [
        "! ftrace failed to modify",
        "  [<ffffffff81000040>] schedule+0x0/0x80",
        "  Setting ftrace call site to call ftrace function",
        "",
        "  expected",
        "    ffffffff81000040  0f 1f 44  insn at ffffffff81000040",
        "    ffffffff81000043  00 00     insn at ffffffff81000043",
        "  found",
        "    ffffffff81000040  0f fe*90* insn at ffffffff81000040",
        "    ffffffff81000043  00 90*    insn at ffffffff81000043",
        "  Not expected bl: opcode is 90909090",
        "",
        "  Nothing was written. As after every such bug, ftrace_disabled is",
        "  set: ftrace stays off until the machine is rebooted (R).",
    ]
    assert report.at == IP
    assert (
        report.copy == f"------------[ ftrace bug ]------------\nftrace failed to modify \n{STEP}"
    )


def test_a_bug_in_a_trampoline_names_the_place() -> None:
    bug = FtraceBug(IP, errno=errno.EFAULT, address=IP + 0x100, symbol="f")
    report = bug_report(bug, instructions, lambda address: f"stub at {address:x}")
    text = [plain(each) for each in report.lines]
    assert text[0] == "! ftrace faulted on modifying "
    assert "  at [<ffffffff81000140>] stub at ffffffff81000140" in text


T = "echo schedule > set_ftrace_filter; echo function > current_tracer"
DAMAGE = {
    "x86_64": ("poke schedule jmp vfs_read", "jmp vfs_read"),
    "mips": ("poke schedule+0x10 beq zero, zero, schedule+40", "b schedule+0x28"),
    "arm64": ("poke schedule+4 bl vfs_read", "bl vfs_read"),
    "ppc64": (
        "insmod usbcore; poke ftrace_caller.stub+0x8 b ftrace_caller.stub",
        "b ftrace_caller.stub",
    ),
}
"""Commands that damage text, and the damage that ftrace finds."""


@needs_keystone
@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_shown_at_its_place_within_80_columns(name: str) -> None:
    driver = SessionDriver(Session.open(arches.load(name)))
    damage, found = DAMAGE[name]
    assert not driver.execute(damage).error
    traced = T.replace("schedule", "usb_alloc_dev") if name == "ppc64" else T
    assert driver.execute(traced).status
    (report,) = driver.view().reports
    text = [plain(each) for each in report.lines]
    assert max(map(len, text)) <= 80 - 4 - 7  # the box is narrower and has a border
    at = text.index("  found")
    (row,) = (each for each in text[at + 1 :] if each.endswith(found))
    address = int(row.split()[0], 16)
    size = driver.session.port.facts.insn_align if name != "x86_64" else 5
    now = driver.session.boot.machine.memory.read(address, size)
    assert now.hex(" ") in row.replace("*", " ")
    assert "*" in row and "*" not in "".join(text[:at])


def test_an_oops() -> None:
    oops = GuestOops("invalid opcode", cpu=1, pc=IP, report=("RIP: schedule+0x5", "Call Trace:"))
    report = oops_report(oops)
    text = [plain(each) for each in report.lines]
    assert text[0] == "! invalid opcode"
    assert "RIP: schedule+0x5" in text
    assert report.title == "CPU 1 oopsed"
    assert report.copy == "invalid opcode\nRIP: schedule+0x5\nCall Trace:"


def test_an_oops_of_a_call_begins_with_its_cause() -> None:
    oops = GuestOops("NULL pointer dereference", cpu=0, pc=IP, report=("RIP: schedule+0x5",))
    oops.cause = "schedule+0x5 uses the pointer in runqueues"
    report = oops_report(oops, stopped=False)
    text = [plain(each) for each in report.lines]
    assert text[:2] == [f"! {oops.cause}", f"! {oops}"]
    assert text[-1] == "The call has ended; other calls still work."
    assert report.copy.splitlines()[:2] == [oops.cause, str(oops)]
