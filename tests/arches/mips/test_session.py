"""Sessions on MIPS: the overflow, three builds of a module side by side, delay slots."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from dynftrace import arches
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

from ...support.keystone import needs_keystone
from ...support.user import opened

PORTS = ("mips", "mipsel", "mips64")


@pytest.fixture(params=PORTS)
def shell(request: pytest.FixtureRequest) -> Shell:
    return Shell(opened(request.param))


def sh(shell: Shell, text: str) -> str:
    outcome = shell.execute(text)
    assert (outcome.error, outcome.status) == ("", 0), text
    return outcome.output


def test_near_calls_overflow_and_leave_no_trace(shell: Shell) -> None:
    regions = len(shell.session.boot.machine.memory.regions)
    functions = sh(shell, "cat available_filter_functions")
    outcome = shell.execute("insmod usbcore-near")
    assert outcome.status != 0
    assert "Invalid module format" in outcome.error
    location = shell.session.port.facts.map.modules
    text = f"module usbcore_near: relocation overflow, v:{shell.session.boot.ftrace.mcount:x}, "
    assert text in outcome.error and text in sh(shell, "dmesg")
    assert f"location:{location:x}"[:-1] in outcome.error
    assert sh(shell, "lsmod").splitlines()[1:] == []
    assert len(shell.session.boot.machine.memory.regions) == regions
    assert sh(shell, "cat available_filter_functions") == functions
    sh(shell, "insmod usbcore")


def test_far_calls_and_linked_stubs_are_traced_side_by_side(shell: Shell) -> None:
    sh(shell, "insmod usbcore; insmod usbcore-trampoline; echo function > current_tracer")
    sh(shell, "run usb")
    modules = shell.session.boot.modules.loaded
    assert [module.name for module in modules] == ["usbcore", "usbcore_trampoline"]
    shown = sh(shell, "site usb_ifnum_to_if").split("\n\n")
    assert "through _mcount " in shown[0] and "lui" in shown[0]
    why = "only its first word changes: a task may be at any of the others"
    assert why in shown[0] and why not in shown[1]
    assert "through ftrace_caller_trampoline" in shown[1]
    assert "jal ftrace_caller_trampoline" in shown[1]
    for module in ("usbcore", "usbcore-trampoline"):
        assert "  ok  leads to ftrace_caller" in sh(shell, f"tramp {module}")
    sh(shell, "echo nop > current_tracer; rmmod usbcore-trampoline; rmmod usbcore")
    assert not shell.session.boot.machine.oopses


@pytest.mark.parametrize(
    ("arch", "shown"), [("mips64", "dsll32 $v1, $v1, 0"), ("mips", "move $t4, $zero")]
)
def test_a_module_with_the_longest_sites_is_traced(arch: str, shown: str) -> None:
    shell = Shell(Session.open(arches.load(arch), MachineSpec()))
    sh(shell, "insmod usbcore; insmod usbcore-wide; echo usb_* > set_ftrace_filter")
    sh(shell, "echo function > current_tracer; run usb")
    ips = set(re.findall(r": (usb_\w+) <-", sh(shell, "cat trace")))
    assert "usb_ifnum_to_if" in ips
    assert shown in sh(shell, "site usb_ifnum_to_if")
    sh(shell, "echo function_graph > current_tracer; run usb; echo nop > current_tracer")
    assert not shell.session.boot.machine.oopses


def test_insmod_replaces_the_calls_of_mcount_as_a_script_would(shell: Shell) -> None:
    assert "relocation overflow" in shell.execute("insmod usbcore-jal").error
    said = sh(shell, "insmod --replace _mcount=_mcount_trampoline usbcore-jal")
    assert re.fullmatch(r"usbcore_jal: \d\d calls of _mcount now call _mcount_trampoline\n", said)
    shown = sh(shell, "site usb_ifnum_to_if")
    assert re.search("in file .* jal _mcount\n.*loaded .* jal _mcount_trampoline\n", shown)
    for wrong, why in {
        "a": "is not two symbols",
        "a=b": "does not define 'b'",
        "a=usb_submit_urb": "no call of 'a'",
    }.items():
        assert why in shell.execute(f"insmod --replace {wrong} usbcore").error
    sh(shell, "echo usb_* > set_ftrace_filter; echo function > current_tracer; run usb")
    assert "usb_ifnum_to_if <-" in sh(shell, "cat trace")
    sh(shell, "echo nop > current_tracer; rmmod usbcore-jal")
    assert not shell.session.boot.machine.oopses


@needs_keystone
def test_the_one_trampoline_of_a_module_is_rewritten(shell: Shell) -> None:
    sh(shell, "insmod usbcore-one")
    stubs = sh(shell, "tramp usbcore-one")
    assert "_mcount_trampoline  ok  leads to ftrace_caller\n" in stubs
    assert "ftrace_caller_trampoline" not in stubs
    sh(shell, "echo usb_* > set_ftrace_filter; echo function > current_tracer")
    assert "through _mcount_trampoline" in sh(shell, "site usb_ifnum_to_if")
    sh(shell, "run usb; echo nop > current_tracer")
    sh(shell, "poke _mcount_trampoline+4 addiu t0, t0, 0x24")
    assert "addr does not match" in shell.execute("echo function > current_tracer").error or (
        "ftrace bug" in sh(shell, "dmesg")
    )
    assert not shell.session.boot.machine.oopses


@pytest.mark.parametrize("word", range(5))
def test_each_word_of_a_far_site_is_checked(shell: Shell, word: int) -> None:
    sh(shell, "insmod usbcore")
    address = shell.session.address_of("usb_ifnum_to_if")
    sh(shell, f"poke 0x{address + 4 * word:x} 0x12345678")
    before = shell.session.boot.machine.memory.read(address, 20)
    outcome = shell.execute("echo function > current_tracer")
    assert "ftrace failed to modify" in outcome.error
    assert shell.session.boot.machine.memory.read(address, 20) == before


@pytest.mark.parametrize(
    ("module", "way"),
    [("usbcore", "_mcount"), ("usbcore-trampoline", "ftrace_caller_trampoline")],
)
def test_damage_on_the_path_to_ftrace_caller_is_refused(
    shell: Shell, module: str, way: str
) -> None:
    sh(shell, f"insmod {module}")
    session = shell.session
    row = session.boot.ftrace.records.names.index("usb_ifnum_to_if")
    stub = next(
        hop
        for hop in session.call_path(session.boot.ftrace.records.ip_of(row))
        if hop.label == "stub"
    )
    assert stub.address == session.address_of(way)
    ip = int(session.boot.ftrace.records.table["ip"][row])
    undamaged = session.save()
    for word in range(0, len(stub.data), 4):
        undamaged()
        sh(shell, f"poke 0x{stub.address + word:x} 0x12345678")
        before = session.boot.machine.memory.read(ip, 20)
        outcome = shell.execute("echo function > current_tracer")
        assert "the stub of ftrace_caller" in outcome.error
        assert session.boot.machine.memory.read(ip, 20) == before


def test_a_step_shows_branch_and_slot_as_one(shell: Shell) -> None:
    port = shell.session.port
    shown = sh(shell, "step 60").splitlines()
    lines = [line for line in shown if line.startswith("cpu0  ")]
    pcs = [int(line.split()[1], 16) for line in lines]
    memory = shell.session.boot.machine.memory
    after = {pc + 4 for pc in pcs if port.has_delay_slot(memory.read(pc, 4))}
    jumps = [line for line, pc in zip(lines, pcs, strict=True) if pc + 4 in after]
    assert jumps and all("; " in line for line in jumps)
    for before, pc in pairwise(pcs):
        if before + 4 in after:
            assert pc != before + 4


def test_a_branch_protects_a_task_that_two_nops_would_break() -> None:
    """The guide's lesson: with nops, a CPU stopped between the two words crashes."""
    ends = []
    for nop in ("b", "nop", "linux"):
        session = Session.open(arches.load("mips"), MachineSpec(nop=nop))
        shell = Shell(session)
        sh(shell, "until schedule; step 1")
        shell.execute("echo function > current_tracer; run syscalls")
        ends.append(len(session.boot.machine.oopses))
    assert ends == [0, 1, 0]


@needs_keystone
def test_registers_have_their_abi_names() -> None:
    shell = Shell(Session.open(arches.load("mips64"), MachineSpec(boot=False)))
    shown = sh(shell, "poke schedule lw a4, 0(sp)") + sh(shell, "poke schedule lw t0, 0(sp)")
    assert re.findall(r"after .* lw (\S+),", shown) == ["$a4", "$t0"]
