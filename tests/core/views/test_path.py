"""Every hop of a call path, read from memory and compared with what ftrace put there."""

from __future__ import annotations

import re

from dynftrace.core.ftrace.records import Flag
from dynftrace.core.shell.text.call_site import path_lines
from dynftrace.core.views.path import Hop, PathReader

from ...support.keystone import needs_keystone
from .siteworld import SCHEDULE, TEXT, World, call


def path(world: World, row: int = 0) -> tuple[Hop, ...]:
    return PathReader(world.ftrace, world.memory, world.disasm).path(
        world.ftrace.records.ip_of(row)
    )


def test_the_path_of_an_enabled_site() -> None:
    world = World()
    world.enable(0, "function_trace_call")
    entry = world.ftrace.entry
    hops = path(world)
    assert [hop.label for hop in hops] == ["site", "ftrace_caller", "ftrace_call", "tracer"]
    assert [hop.address for hop in hops] == [
        SCHEDULE,
        entry["ftrace_caller"],
        entry["ftrace_call"],
        entry["function_trace_call"],
    ]
    assert [hop.target for hop in hops] == [
        entry["ftrace_caller"],
        entry["ftrace_call"],
        entry["function_trace_call"],
        None,
    ]
    assert all(hop.verified for hop in hops)
    assert hops[0].note == "calls ftrace_caller"
    assert hops[2].insns[0][1] == "call function_trace_call"
    assert hops[1].data == entry.code[: entry["ftrace_call"] - entry["ftrace_caller"]]


def test_a_nop_leads_nowhere_and_ftrace_stub_traces_nothing() -> None:
    hops = path(World())
    assert hops[0].target is None
    assert hops[0].note == "nop; would call ftrace_caller"
    assert hops[-1].name == "ftrace_stub"
    assert hops[-1].note == "returns: nothing is traced"
    assert [text for _, text in hops[-1].insns] == ["ret"]
    assert all(hop.verified for hop in hops)


def test_several_tracers_go_through_the_list() -> None:
    world = World()
    world.enable(0, "function_trace_call", "other_call")
    names = [hop.name for hop in path(world)]
    assert names[3:] == ["ftrace_ops_list_func", "function_trace_call", "other_call"]


def test_a_stub_is_a_hop() -> None:
    world = World()
    _, stub = world.load_module()
    world.enable(2, "function_trace_call")
    hops = path(world, 2)
    assert [hop.label for hop in hops][:3] == ["site", "stub", "ftrace_caller"]
    assert hops[0].target == stub.address == hops[1].address
    assert hops[0].insns[0][1] == hops[0].note.replace("calls", "call") == "call ftrace_caller.stub"
    assert (hops[1].name, hops[1].note) == ("ftrace_caller.stub", "leads to ftrace_caller")
    assert hops[1].target == stub.target
    assert all(hop.verified for hop in hops)
    assert path(world, 0)[1].label == "ftrace_caller"


def test_every_word_of_a_stub_is_shown_and_data_is_not_decoded() -> None:
    world = World()
    _, stub = world.load_module()
    hop = path(world, 2)[1]
    assert hop.data == stub.code
    assert [text for _, text in hop.insns] == [
        "jmp ftrace_caller",
        ".byte 0x0",
        ".short 0x0",
        ".quad ftrace_caller",
    ]
    assert [insn.decoded for insn, _ in hop.insns] == [True, False, False, False]
    assert not any(hop.wrong(insn) for insn, _ in hop.insns)


def test_a_stub_with_the_wrong_target_is_shown() -> None:
    world = World()
    _, stub = world.load_module()
    other = world.ftrace.port.stubs.code(stub.address, SCHEDULE)
    world.memory.write(stub.address, other)
    hop = path(world, 2)[1]
    assert not hop.verified and hop.target == SCHEDULE
    assert hop.note == (
        f"+0x0 is {other[:5].hex(' ')}, expected {stub.code[:5].hex(' ')} and 1 more; "
        "leads to schedule"
    )
    assert [hop.wrong(insn) for insn, _ in hop.insns] == [True, False, False, True]


def test_a_damaged_stub_is_not_verified() -> None:
    world = World()
    _, stub = world.load_module()
    world.memory.write(stub.address + 5, b"\x01")
    hop = path(world, 2)[1]
    assert not hop.verified
    assert hop.note == "+0x5 is 01, expected 00; leads to ftrace_caller"
    world.memory.write(stub.address, b"\x90")
    assert path(world, 2)[1].note.endswith("; leads nowhere")
    world.memory.unmap("module usbcore")
    site, gone = path(world, 2)[:2]
    assert (site.note, gone.note) == ("not mapped", "not mapped")
    assert not gone.verified and gone.insns == ()


def test_bytes_are_shown_as_code_or_data_by_address() -> None:
    world = World()
    _, stub = world.load_module()
    paths = PathReader(world.ftrace, world.memory, world.disasm)
    pointer = stub.code[8:]
    assert paths.text(stub.address, stub.code[:5]) == "jmp ftrace_caller"
    assert paths.text(stub.address + 8, pointer) == ".quad ftrace_caller"
    assert paths.text(stub.address + 4, stub.code[4:6]).endswith("; .byte 0x0")
    assert ".quad" not in paths.text(SCHEDULE, pointer)


def test_overwritten_hops_are_not_verified() -> None:
    world = World()
    world.enable(0, "function_trace_call")
    entry = world.ftrace.entry
    world.memory.write(SCHEDULE, b"\x90")
    world.memory.write(entry["ftrace_caller"], b"\x90")
    world.memory.write(entry["ftrace_call"], call(entry["ftrace_call"], TEXT + 0x123))
    site, caller, slot, tracer = path(world)
    assert not (site.verified or caller.verified or slot.verified or tracer.verified)
    assert site.note == f"no call: 90{site.expected[1:].hex()}"
    world.memory.write(SCHEDULE, site.expected[:1] + bytes(4))
    assert path(world)[0].note.endswith("call ftrace_caller")
    assert slot.target == tracer.address == TEXT + 0x123
    assert tracer.note == "no function begins here"


def test_a_slot_that_leads_to_unmapped_memory_says_so() -> None:
    world = World()
    world.enable(0, "function_trace_call")
    slot = world.ftrace.entry["ftrace_call"]
    world.memory.write(slot, call(slot, slot + 0x100_0000))
    assert path(world)[-1].note == "not mapped"


def test_a_path_is_shown_as_text() -> None:
    world = World()
    world.enable(0, "function_trace_call")
    hops = path(world)
    lines = path_lines(hops, code=False)
    entry = world.ftrace.entry
    assert lines == [
        "   site schedule        ffffffff81000100  ok  calls ftrace_caller",
        f"-> ftrace_caller        {entry['ftrace_caller']:x}  ok  as assembled from entry.S",
        f"-> ftrace_call          {entry['ftrace_call']:x}  ok  calls function_trace_call",
        f"-> function_trace_call  {entry['function_trace_call']:x}  ok  writes the event",
    ]
    code = [each for each in path_lines(hops) if re.match(r" +[0-9a-f]{16}  ", each)]
    assert len(code) == sum(len(hop.insns) for hop in hops)
    assert all(line.isascii() for line in path_lines(hops))
    assert path_lines(()) == []


SHARED = """
        .globl ftrace_regs_caller
ftrace_regs_caller:
        mov     ecx, 1
        jmp     ftrace_common
        .globl ftrace_caller
ftrace_caller:
        xor     ecx, ecx
        .globl ftrace_common
ftrace_common:
        push    rax
        .globl ftrace_call
ftrace_call:
        call    ftrace_stub
        pop     rax
        .globl ftrace_stub
ftrace_stub:
        ret
"""


@needs_keystone
def test_code_shared_by_callers_is_a_separate_hop() -> None:
    world = World(SHARED)
    reader = PathReader(world.ftrace, world.memory, world.disasm)
    for caller in ("ftrace_regs_caller", "ftrace_caller"):
        hops = reader.entry_hops(caller)
        assert [hop.name for hop in hops] == [
            *(caller, "ftrace_common", "ftrace_call", "ftrace_stub")
        ]
        assert all(hop.verified for hop in hops)
        assert [hop.target for hop in hops[:-1]] == [hop.address for hop in hops[1:]]


def test_the_path_of_a_site_whose_user_needs_registers() -> None:
    world = World()
    world.enable(0, "function_trace_call")
    entry, records = world.ftrace.entry, world.ftrace.records
    records.table["flags"][0] |= Flag.REGS | Flag.REGS_EN
    world.memory.write(SCHEDULE, call(SCHEDULE, entry["ftrace_regs_caller"]))
    slot = entry["ftrace_regs_call"]
    world.memory.write(slot, call(slot, entry["function_trace_call"]))
    hops = path(world)
    assert [hop.name for hop in hops[1:]] == [
        *("ftrace_regs_caller", "ftrace_regs_call", "function_trace_call")
    ]
    assert all(hop.verified for hop in hops)
    assert hops[0].note == "calls ftrace_regs_caller"
    world.memory.write(SCHEDULE, call(SCHEDULE, entry["ftrace_caller"]))
    assert not path(world)[0].verified
