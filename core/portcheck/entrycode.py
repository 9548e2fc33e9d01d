"""Checks of ftrace_caller and the other entry code, run by instruction on a bare engine."""

from __future__ import annotations

import numpy as np

from ..arch import Edit
from ..ftrace.entry import CALLER, GRAPH_CALL, GRAPH_CALLER, REGS_CALLER, RETURN_TO_HANDLER
from .bench import BACK, STACK, argument, code_of, engine, entered, put, registers, run_to
from .check import DYNAMIC, DYNAMIC_GRAPH, FUNCTION_TRACER, GRAPH, MCOUNT_TEST, REGISTERS, check
from .outcome import Absent, Failure, expect, same_text
from .subject import PortUnderTest

TRACE_STOP = "function_trace_stop"
"""A word in entry.S; while it is not 0, nothing is traced."""

SET = b"\1\1\1\1"

HANDLER = "ftrace_return_to_handler"
"""The C function that return_to_handler calls for the real return address."""


@check(FUNCTION_TRACER, "labels", "entry.S has ftrace_caller, ftrace_call, ftrace_stub")
def labels(subject: PortUnderTest) -> None:
    subject.entry  # noqa: B018


@check(FUNCTION_TRACER, "arguments", "the tracer gets ip and parent_ip")
def arguments(subject: PortUnderTest) -> None:
    port, slot = subject.port, subject.slot_of(CALLER)
    edit = port.make_call(subject.sites, subject.labels[CALLER])
    for row in subject.some:
        ip, end, text = _site(subject, edit, row)
        uc = entered(subject, subject.start_of(ip), end)
        uc.mem_write(int(edit.address[row]), text)
        at, _ = run_to(uc, port, subject.start_of(ip), slot)
        expect(at == slot, f"ftrace_call is not reached; pc is {at:x}", ip, b"", text)
        got, parent = argument(port, uc, 0), argument(port, uc, 1)
        expect(got == ip, f"the tracer gets ip {got:x}", ip, b"", text)
        back = subject.base + BACK
        expect(parent == back, f"the tracer gets parent_ip {parent:x}, not {back:x}", ip, b"", text)


@check(FUNCTION_TRACER, "registers kept", "a traced site preserves the same registers")
def kept(subject: PortUnderTest) -> None:
    port = subject.port
    edits = [port.make_call(subject.sites, subject.labels[name]) for name in subject.callers]
    for row in subject.some:
        ip, _, _ = _site(subject, edits[0], row)
        nop = edits[0].row(edits[0].expected, row)
        before = _after(subject, edits[0], row, nop)
        for edit in edits:
            text = edit.row(edit.replacement, row)
            _same_registers(subject, before, _after(subject, edit, row, text), ip, text)


@check(MCOUNT_TEST, "trace stop", "function_trace_stop disables tracing")
def trace_stop(subject: PortUnderTest) -> None:
    port, labels = subject.port, subject.labels
    if TRACE_STOP not in labels:
        raise Absent(f"entry.S has no {TRACE_STOP}")
    slots = {subject.slot_of(name) for name in subject.callers}
    edits = [port.make_call(subject.sites, labels[name]) for name in subject.callers]
    for row in subject.some:
        ip, end, _ = _site(subject, edits[0], row)
        start = subject.start_of(ip)
        before = _after(subject, edits[0], row, edits[0].row(edits[0].expected, row))
        for edit in edits:
            text = edit.row(edit.replacement, row)
            uc = entered(subject, start, end)
            uc.mem_write(int(edit.address[row]), text)
            uc.mem_write(labels[TRACE_STOP], SET)
            at, seen = run_to(uc, port, start, end, slots)
            expect(not seen, "the tracer is called although it is stopped", ip, b"", text)
            expect(at == end, f"execution does not leave the site; pc is {at:x}", ip, b"", text)
            _same_registers(subject, before, registers(uc, port), ip, text)


@check(REGISTERS, "pt_regs", "the tracer gets the registers of the site")
def pt_regs(subject: PortUnderTest) -> None:
    """Compare with the registers before the site, except a link register; pc may be after it."""
    port, abi = subject.port, subject.port.facts.abi
    if REGS_CALLER not in subject.callers:
        raise Absent(f"entry.S has no {REGS_CALLER}")
    slot = subject.slot_of(REGS_CALLER)
    edit = port.make_call(subject.sites, subject.labels[REGS_CALLER])
    size = port.facts.pointer_size
    names = [register.name for register in abi.pt_regs]
    dtype = f"{'<' if port.facts.byteorder == 'little' else '>'}u{size}"
    for row in subject.some:
        ip, end, text = _site(subject, edit, row)
        start = subject.start_of(ip)
        uc = entered(subject, start, end)
        uc.mem_write(int(edit.address[row]), text)
        if start != ip:
            run_to(uc, port, start, ip)
        before = registers(uc, port)
        at, _ = run_to(uc, port, ip, slot)
        expect(at == slot, f"the slot is not reached; pc is {at:x}", ip, b"", text)
        raw = bytes(uc.mem_read(argument(port, uc, 3), size * len(names)))
        saved = dict(zip(names, np.frombuffer(raw, dtype).tolist(), strict=True))
        pc = saved[abi.pc.name]
        expect(ip <= pc <= end, f"the saved {abi.pc.name} is {pc:x}", ip, b"", text)
        apart = {abi.pc.name, abi.link.name if abi.link else ""}
        # Even a disabled site may change registers whose values are not needed there.
        apart |= port.emulate(before, ip, edit.row(edit.expected, row)).registers.keys()
        for name in names:
            if name not in apart:
                wrong = f"the saved {name} is {saved[name]:x}, not {before[name]:x}"
                expect(saved[name] == before[name], wrong, ip, b"", text)
        got = argument(port, uc, 0)
        expect(got == ip, f"the tracer gets ip {got:x}", ip, b"", text)


@check(DYNAMIC_GRAPH, "graph slot", "ftrace_graph_call becomes a call, then a nop")
def graph_slot(subject: PortUnderTest) -> None:
    port, labels = subject.port, subject.labels
    _graph_labels(subject)
    slot, caller = labels[GRAPH_CALL], labels[GRAPH_CALLER]
    edit = port.enable_graph_caller(slot, caller)
    address, expected = int(edit.address[0]), edit.row(edit.expected, 0)
    at = address - subject.base
    code = subject.entry.code[at : at + len(expected)]
    same_text("the slot does not hold the expected nop", address, expected, code)
    expect(edit.reachable.all(), "ftrace_graph_caller is out of reach of the slot", address)
    text = edit.row(edit.replacement, 0)
    leads = port.call_target(address, text)
    expect(leads == caller, "the call does not lead to ftrace_graph_caller", address, b"", text)
    back = edit.reversed()
    same_text("the reversed edit expects another call", address, text, back.row(back.expected, 0))


@check(GRAPH, "return_to_handler", "preserves the result, returns to the caller")
def return_to_handler(subject: PortUnderTest) -> None:
    port, base = subject.port, subject.base
    _graph_labels(subject)
    abi, start, back = port.facts.abi, subject.labels[RETURN_TO_HANDLER], base + BACK
    if HANDLER not in subject.called:
        raise Failure(f"return_to_handler does not call {HANDLER}", start)
    uc = entered(subject, start, start)
    value, sp = 0x1234567, uc.reg_read(abi.sp.number)
    uc.reg_write(abi.result.number, value)
    handler = code_of(subject, subject.called[HANDLER])
    at, _ = run_to(uc, port, start, handler)
    expect(at == handler, f"{HANDLER} is not called; pc is {at:x}", start)
    got = argument(port, uc, 1)
    expect(got == value, f"retval is {got:x}, not {value:x}", start)
    for register in abi.arguments:
        uc.reg_write(register.number, 0x5555)
    uc.reg_write(abi.result.number, back)
    at, _ = run_to(uc, port, handler, back)
    expect(at == back, f"pc is {at:x}, not {back:x}", start)
    got = uc.reg_read(abi.result.number)
    expect(got == value, f"the result is {got:x}, not {value:x}", start)
    now = uc.reg_read(abi.sp.number)
    expect(now == sp, f"sp is {now:x}, not {sp:x}", start)


@check(DYNAMIC_GRAPH, "graph kept", "an enabled slot preserves the same registers")
def graph_kept(subject: PortUnderTest) -> None:
    port, labels = subject.port, subject.labels
    _graph_labels(subject)
    slot = port.enable_graph_caller(labels[GRAPH_CALL], labels[GRAPH_CALLER])
    call = (int(slot.address[0]), slot.row(slot.replacement, 0))
    edits = [port.make_call(subject.sites, labels[name]) for name in subject.callers]
    for row in subject.some:
        ip = int(subject.sites.ip[row])
        before = _after(subject, edits[0], row, edits[0].row(edits[0].expected, row))
        for edit in edits:
            text = edit.row(edit.replacement, row)
            _same_registers(subject, before, _after(subject, edit, row, text, call), ip, text)


@check(DYNAMIC, "stub", "ftrace_stub returns")
def stub_returns(subject: PortUnderTest) -> None:
    port, base = subject.port, subject.base
    stub, back = subject.labels["ftrace_stub"], base + BACK
    uc = engine(port, base)
    uc.mem_write(base, subject.entry.code)
    effect = port.enter_call(stub, [], base + STACK, back)
    put(uc, port, effect.registers, effect.stores)
    at, _ = run_to(uc, port, stub, back)
    expect(at == back, f"pc is {at:x}, not {back:x}", stub)


def _graph_labels(subject: PortUnderTest) -> None:
    """Raise `Absent` if entry.S lacks all labels of the graph tracer, `Failure` if some."""
    wanted = (GRAPH_CALL, GRAPH_CALLER, RETURN_TO_HANDLER)
    missing = [name for name in wanted if name not in subject.labels]
    if len(missing) == len(wanted):
        raise Absent(f"entry.S has no {GRAPH_CALL}")
    if missing:
        raise Failure(f"entry.S has no {', '.join(missing)}")


def _site(subject: PortUnderTest, edit: Edit, row: int) -> tuple[int, int, bytes]:
    """Return the ip of a site, the address after it, and its enabled text."""
    text = edit.row(edit.replacement, row)
    return int(subject.sites.ip[row]), int(edit.address[row]) + len(text), text


def _after(
    subject: PortUnderTest,
    edit: Edit,
    row: int,
    text: bytes,
    patch: tuple[int, bytes] | None = None,
) -> dict[str, int]:
    """Enter the function of a site that holds `text`; return the registers after the site.

    `patch` is an address in the entry code and the bytes to store there.
    """
    ip, end, _ = _site(subject, edit, row)
    start = subject.start_of(ip)
    uc = entered(subject, start, end)
    uc.mem_write(int(edit.address[row]), text)
    if patch is not None:
        uc.mem_write(*patch)
    at, _ = run_to(uc, subject.port, start, end)
    wrong = f"execution does not leave the site; pc is {at:x}, not {end:x}"
    expect(at == end, wrong, ip, b"", text)
    return registers(uc, subject.port)


def _same_registers(
    subject: PortUnderTest, before: dict[str, int], after: dict[str, int], ip: int, text: bytes
) -> None:
    """Raise `Failure` for the first register that differs and that a site must preserve."""
    for name, value in before.items():
        if name not in subject.port.facts.sites.clobbers:
            wrong = f"{name} is {after[name]:x} after it, but {value:x} after the nop"
            expect(after[name] == value, wrong, ip, b"", text)


CHECKS = (
    *(labels, arguments, kept, trace_stop, stub_returns, pt_regs),
    *(return_to_handler, graph_slot, graph_kept),
)
