"""Structures and numbers shared by host and guest, checked with the images' debug data."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.elf.elffile import ELFFile

from dynftrace.core import abi

from ..support.images import GUEST, PORTS, Images


@pytest.fixture(params=PORTS, ids=[images.arch for images in PORTS])
def images(request: pytest.FixtureRequest) -> Images:
    assert isinstance(request.param, Images)
    return request.param


@cache
def described(images: Images) -> tuple[ELFFile, dict[str, DIE]]:
    """Return the debug data and its structures, read once."""
    elf = images.elf()
    return elf, structures(elf)


def structures(elf: ELFFile) -> dict[str, DIE]:
    """Return the structure types described by include/abi.c, by name."""
    found: dict[str, DIE] = {}
    unit: CompileUnit
    for unit in elf.get_dwarf_info().iter_CUs():
        top = unit.get_top_DIE()
        if not top.attributes["DW_AT_name"].value.endswith(b"abi.c"):
            continue
        for die in top.iter_children():
            if die.tag == "DW_TAG_structure_type" and "DW_AT_name" in die.attributes:
                found[die.attributes["DW_AT_name"].value.decode()] = die
    return found


def byte_size(die: DIE) -> int:
    """Return the size of a type, through typedefs, qualifiers and arrays."""
    if "DW_AT_byte_size" in die.attributes:
        return int(die.attributes["DW_AT_byte_size"].value)
    element = byte_size(die.get_DIE_from_attribute("DW_AT_type"))
    if die.tag != "DW_TAG_array_type":
        return element
    for child in die.iter_children():
        element *= int(child.attributes["DW_AT_upper_bound"].value) + 1
    return element


def members(die: DIE) -> dict[str, tuple[int, int]]:
    """Return offset and size of each member."""
    return {
        child.attributes["DW_AT_name"].value.decode(): (
            int(child.attributes["DW_AT_data_member_location"].value),
            byte_size(child.get_DIE_from_attribute("DW_AT_type")),
        )
        for child in die.iter_children()
        if child.tag == "DW_TAG_member"
    }


def layouts(byteorder: str, pointer_size: int) -> dict[str, np.dtype[np.void]]:
    """Return the host's layouts by name of the guest's structure."""
    ret_stack = abi.ftrace_ret_stack(byteorder, pointer_size)
    arch = abi.mod_arch_specific(byteorder, pointer_size)
    entry_fields = ("ret", "func", "fp", "told", "profiled", "calltime", "subtime", "probe")
    return {
        "cpu_clock": abi.cpu_clock(byteorder),
        "cpu_local": abi.cpu_local(byteorder),
        "ring_buffer_cpu": abi.ring_buffer_cpu(byteorder),
        "ftrace_update": abi.ftrace_update(byteorder),
        "multi_stop_data": abi.multi_stop_data(byteorder, pointer_size),
        "host_request": abi.host_request(byteorder),
        "saved_cmdline": abi.saved_cmdline(byteorder),
        "ftrace_ret_stack": ret_stack,
        "ftrace_ret_entry": ret_stack["stack"].base[[*entry_fields]],
        "module": np.dtype([*abi.this_module(byteorder, pointer_size).descr, ("arch", arch)]),
        "mod_arch_specific": arch,
        "kernel_param": abi.kernel_param(byteorder, pointer_size),
        "ftrace_ops_entry": abi.ftrace_ops_entry(byteorder),
        "fgraph_control": abi.fgraph_control(byteorder),
        "ftrace_profile_control": abi.ftrace_profile_control(byteorder),
        "ftrace_profile": abi.ftrace_profile(byteorder),
        "func_probe": abi.func_probe(byteorder),
        "tracepoint": abi.tracepoint(byteorder),
        "syscall_metadata": abi.syscall_metadata(byteorder, pointer_size),
        "syscall_event": abi.syscall_event(byteorder),
        "trace_event_field": abi.trace_event_field(byteorder, pointer_size),
        "trace_event_call": abi.trace_event_call(byteorder, pointer_size),
        "trace_event_file": abi.trace_event_file(byteorder),
        "filter_pred": abi.filter_pred(byteorder),
        "event_trigger": abi.event_trigger(byteorder),
        "hist_op": abi.hist_op(byteorder),
        "hist_field": abi.hist_field(byteorder),
        "hist_var_ref": abi.hist_var_ref(byteorder),
        "hist_action": abi.hist_action(byteorder),
        "synth_event": abi.synth_event(byteorder),
        "hist_trigger": abi.hist_trigger(byteorder),
        "fetch_insn": abi.fetch_insn(byteorder),
        "trace_probe": abi.trace_probe(byteorder),
        "kprobe": abi.kprobe(byteorder),
        "probe_range": abi.probe_range(byteorder),
        "latency_control": abi.latency_control(byteorder),
        "critical_section": abi.critical_section(byteorder),
        "max_trace_data": abi.max_trace_data(byteorder),
        "wakeup_control": abi.wakeup_control(byteorder),
        "trace_array": abi.trace_array(byteorder),
    }


def test_ftraced_and_the_machine_agree_on_the_slots() -> None:
    header = (GUEST / "include" / "ftraced.h").read_text()
    source = (GUEST / "ftrace" / "ftraced.c").read_text()
    flags = re.findall(r"#define FTRACE_FL_(\w+) \(1u << (\d+)\)", header)
    assert {name: 1 << int(bit) for name, bit in flags} == {f.name: int(f) for f in abi.SlotFlag}
    assert f"#define FTRACE_HASHBITS {abi.FTRACE_HASHSIZE.bit_length() - 1}\n" in header
    assert "get_zeroed_page" in source and abi.FTRACE_PAGE_SIZE == 4096
    for name, layout in (
        ("dyn_ftrace", abi.dyn_ftrace("little", 8)),
        ("ftrace_page", abi.ftrace_page("little", 8)),
    ):
        found = re.search(rf"struct {name} {{\n(.*?)\n}};", header, re.DOTALL)
        assert found is not None
        members = re.findall(r"(\w+)(?:;|\[\];)", found[1])
        assert [m for m in members if m != "records"] == list(layout.names or ())


@pytest.mark.parametrize("name", layouts("little", 8))
def test_host_and_guest_agree_on_layouts(images: Images, name: str) -> None:
    elf, found = described(images)
    layout = layouts("little" if elf.little_endian else "big", elf.elfclass // 8)[name]
    die = found[name]
    assert byte_size(die) == layout.itemsize
    assert layout.fields is not None
    of_host = {field: (int(at[1]), at[0].itemsize) for field, at in layout.fields.items()}
    assert members(die) == of_host


def test_host_and_guest_agree_on_numbers_of_events() -> None:
    text = "".join(
        (GUEST / "include" / f"{name}.h").read_text() for name in ("tracer", "trace_events")
    )
    for prefix, kind in (
        ("FILTER_KIND", abi.FilterKind),
        ("FILTER_OP", abi.FilterOp),
        ("HIST_KIND", abi.HistKind),
        ("HIST_HANDLER", abi.HistHandler),
        ("HIST_ACTION", abi.HistAction),
    ):
        assert enumerated(text, prefix) == {each.name: each.value for each in kind}
    triggers = {each.name: each.value for each in abi.TriggerCommand if each.value >= 16}
    assert enumerated(text, "TRIGGER") == triggers
    probes = {each.name: each.value for each in abi.ProbeCommand}
    assert all(probes[each.name] == each.value for each in abi.TriggerCommand if each.value < 16)
    assert enumerated(text, "FIRST")["TRACE_EVENT_ID"] == abi.FIRST_TRACE_EVENT_ID
    assert enumerated(text, "FIRST")["SYNTH_EVENT_ID"] == abi.FIRST_SYNTH_EVENT_ID
    assert enumerated(text, "TRACE_EVENT")["FILES"] == abi.TRACE_EVENT_FILES
    probes_text = (GUEST / "include" / "trace_kprobe.h").read_text()
    steps = {each.name: each.value for each in abi.FetchOp}
    assert enumerated(probes_text, "FETCH_OP") == steps
    assert enumerated(probes_text, "PROBE")["EVENT_SIZE"] == abi.PROBE_EVENT_SIZE
    assert enumerated(probes_text, "PROBE")["RANGES"] == abi.PROBE_RANGES
    sizes = enumerated(text, "HIST")
    for name in (
        *("KEYS_MAX", "VALS_MAX", "VARS_MAX", "KEY_SIZE"),
        *("STACK", "STRING", "PARAMS_MAX", "DIV_SHIFT"),
    ):
        assert sizes[name] == getattr(abi, f"HIST_{name}")


def enumerated(text: str, prefix: str) -> dict[str, int]:
    """Return the `#define PREFIX_NAME number` lines of machine.h."""
    pattern = rf"#define {prefix}_(\w+) (?:\(1u << (\d+)\)|(0x[0-9a-f]+|\d+))"
    return {
        name: 1 << int(shift) if shift else int(number, 0)
        for name, shift, number in re.findall(pattern, text)
    }


def test_host_and_guest_agree_on_numbers() -> None:
    text = (GUEST / "include" / "machine.h").read_text()
    assert enumerated(text, "HC") == {call.name: call.value for call in abi.Hypercall}
    assert enumerated(text, "VECTOR") == {vector.name: vector.value for vector in abi.Vector}
    assert enumerated(text, "REQUEST") == {kind.name: kind.value for kind in abi.RequestKind}
    assert enumerated(text, "UPDATE") == {each.name: each.value for each in abi.UpdateMethod}
    assert enumerated(text, "TEXT_POKE") == {each.name: each.value for each in abi.TextPoke}
    assert enumerated(text, "MULTI_STOP") == {each.name: each.value for each in abi.MultiStop}
    flags = enumerated(text, "RB")
    assert {flag.name: flag.value for flag in abi.RingBufferFlag}.items() <= flags.items()
    assert (flags["PAGE_SIZE"], flags["PAGE_HEADER"]) == (abi.RB_PAGE_SIZE, abi.RB_PAGE_HEADER)
    kinds = enumerated(text, "TRACER")
    assert {kind.name: kind.value for kind in abi.TraceLatency} == kinds
    for name, value in enumerated(text, "TRACE_FLAG").items():
        assert abi.TraceFlag[name] == value
    assert enumerated(text, "TICK")["NS"] == abi.TICK_NS
    assert enumerated(text, "THREAD")["SIZE"] == abi.THREAD_SIZE
    assert enumerated(text, "SAVED")["CMDLINES"] == abi.SAVED_CMDLINES
    text = (GUEST / "include" / "tracepoint.h").read_text()
    assert enumerated(text, "SYSCALLS")["MAX"] == abi.SYSCALLS_MAX
    assert enumerated(text, "SYSCALL")["ARGS_MAX"] == abi.SYSCALL_ARGS_MAX
