"""Checks of ftrace_caller and the other entry code, run by instruction on a bare engine."""

from __future__ import annotations

from collections.abc import Iterator

from ..arch import Edit
from ..ftrace.entry import CALLER, GRAPH_CALL, GRAPH_CALLER, REGS_CALLER, RETURN_TO_HANDLER
from .bench import BACK, STACK, TOC, engine, put, run_to
from .check import DYNAMIC, DYNAMIC_GRAPH, FUNCTION_TRACER, GRAPH, MCOUNT_TEST, REGISTERS, check
from .outcome import Absent, Failure, expect, same_text
from .subject import PortUnderTest
from .traced import GRAPH as GRAPH_RUN
from .traced import (
    HANDLER,
    OP,
    OP_VALUE,
    PLAIN,
    PREPARE,
    STOPPED,
    TRACE_STOP,
    TRACER,
    CCall,
    Run,
    Traced,
    at_site,
    bounds,
    runs,
    same_state,
)


@check(FUNCTION_TRACER, "labels", "entry.S has ftrace_caller, ftrace_call, ftrace_stub")
def labels(subject: PortUnderTest) -> None:
    subject.entry  # noqa: B018


@check(FUNCTION_TRACER, "arguments", "the tracer gets ip, parent_ip, op and regs")
def arguments(subject: PortUnderTest) -> None:
    back = subject.base + BACK
    for caller in subject.callers:
        for run in runs(subject, caller):
            calls = [call for call in run.calls if call.name == TRACER]
            expect(len(calls) == 1, f"{caller} calls the tracer {len(calls)} times", run.ip)
            ip, parent, op, regs = calls[0].arguments
            expect(ip == run.ip, f"the tracer gets ip {ip:x}", run.ip, b"", run.text)
            wrong = f"the tracer gets parent_ip {parent:x}, not {back:x}"
            expect(parent == back, wrong, run.ip, b"", run.text)
            wrong = f"the tracer gets op {op:x}, not {OP_VALUE:x}"
            expect(op == OP_VALUE or OP not in subject.labels, wrong, run.ip, b"", run.text)
            right = (regs == 0) == (caller == CALLER)
            expect(right, f"{caller} passes regs {regs:x}", run.ip, b"", run.text)
        _aligned(subject, caller, PLAIN)


@check(FUNCTION_TRACER, "registers kept", "a traced site preserves the same registers")
def kept(subject: PortUnderTest) -> None:
    for caller in subject.callers:
        for run in runs(subject, caller):
            same_state(run, subject.port.facts)


@check(MCOUNT_TEST, "trace stop", "function_trace_stop disables tracing")
def trace_stop(subject: PortUnderTest) -> None:
    if TRACE_STOP not in subject.labels:
        raise Absent(f"entry.S has no {TRACE_STOP}")
    for caller in subject.callers:
        for run in runs(subject, caller, STOPPED):
            wrong = "the tracer is called although it is stopped"
            expect(not run.calls, wrong, run.ip, b"", run.text)
            same_state(run, subject.port.facts)


@check(REGISTERS, "pt_regs", "the tracer gets the registers of the site")
def pt_regs(subject: PortUnderTest) -> None:
    """Compare with the registers before the site, except a link register; pc may be after it."""
    port, abi = subject.port, subject.port.facts.abi
    for row, edit, called in _with_regs(subject):
        ip, _, end = bounds(subject, edit, row)
        before, text = called.state().registers, edit.row(edit.replacement, row)
        saved: dict[str, int] = {}
        called.on_call = lambda call: saved.update(called.regs(call))  # noqa: B023
        called.run(ip, end)
        pc = saved[abi.pc.name]
        expect(ip <= pc <= end, f"the saved {abi.pc.name} is {pc:x}", ip, b"", text)
        apart = {abi.pc.name, abi.link.name if abi.link else ""}
        # Even a disabled site may change registers whose values are not needed there.
        apart |= port.emulate(before, ip, edit.row(edit.expected, row)).registers.keys()
        for name, value in before.items():
            wrong = f"the saved {name} is {saved[name]:x}, not {value:x}"
            expect(name in apart or saved[name] == value, wrong, ip, b"", text)


@check(REGISTERS, "changed pt_regs", "the traced function gets the tracer's changes")
def changed_regs(subject: PortUnderTest) -> None:
    """Leave out pc, the stack pointer, a link register, and what a site need not preserve."""
    facts = subject.port.facts
    apart = {facts.abi.pc.name, facts.abi.sp.name, *facts.sites.clobbers}
    apart |= {facts.abi.link.name} if facts.abi.link is not None else set()
    for row, edit, called in _with_regs(subject):
        ip, _, end = bounds(subject, edit, row)
        text = edit.row(edit.replacement, row)
        other: dict[str, int] = {}

        def change(call: CCall, called: Traced = called, other: dict[str, int] = other) -> None:
            saved = called.regs(call)
            other |= {name: saved[name] ^ 0x10101 for name in saved.keys() - apart}
            called.set_regs(call, {**saved, **other})

        called.on_call = change
        called.run(ip, end)
        after = called.state().registers
        for name, value in other.items():
            wrong = f"{name} is {after[name]:x}, but the tracer changed it to {value:x}"
            expect(after[name] == value, wrong, ip, b"", text)


def _with_regs(subject: PortUnderTest) -> Iterator[tuple[int, Edit, Traced]]:
    """Yield the sites that checks execute, at calls of ftrace_regs_caller. Raises `Absent`."""
    if REGS_CALLER not in subject.callers:
        raise Absent(f"entry.S has no {REGS_CALLER}")
    edit = subject.port.make_call(subject.sites, subject.labels[REGS_CALLER])
    for row in subject.few:
        yield row, edit, at_site(subject, edit, row)


@check(DYNAMIC_GRAPH, "graph slot", "ftrace_graph_call becomes a branch, then a nop")
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
    expect(leads == caller, "the slot does not lead to ftrace_graph_caller", address, b"", text)
    back = edit.reversed()
    same_text("the reversed edit expects other text", address, text, back.row(back.expected, 0))


@check(GRAPH, "return_to_handler", "preserves the result, returns to the caller")
def return_to_handler(subject: PortUnderTest) -> None:
    port, back = subject.port, subject.base + BACK
    _graph_labels(subject)
    abi, start = port.facts.abi, subject.labels[RETURN_TO_HANDLER]
    if HANDLER not in subject.called:
        raise Failure(f"return_to_handler does not call {HANDLER}", start)
    returned = Traced(subject, start, start)
    if abi.link is None:  # the return took the address of return_to_handler from the stack
        sp = int(returned.uc.reg_read(abi.sp.number)) + port.facts.pointer_size
        returned.set(abi.sp.name, sp)
    if abi.toc is not None:
        returned.set(abi.toc.register.name, TOC ^ 0xFF00)  # the function may be a module's
    returned.result = back
    before = returned.state()
    returned.run(start, back)
    got = [call.name for call in returned.calls]
    expect(got == [HANDLER], f"{HANDLER} is called {got.count(HANDLER)} times", start)
    call, value = returned.calls[0], before.registers[abi.result.name]
    retval = call.arguments[1]
    expect(retval == value, f"retval is {retval:x}, not {value:x}", start)
    expect(call.sp % abi.stack_align == 0, f"sp is {call.sp:x} at the call: not aligned", start)
    after = returned.state()
    results = {abi.result.name, *(each.name for each in abi.results)}
    changed = abi.volatile or before.registers
    free = {name for name in changed if name not in results}
    free |= {abi.pc.name, *([] if abi.link is None else [abi.link.name])}
    for name in before.registers.keys() - (free - {abi.sp.name}):
        was, now = before.registers[name], after.registers[name]
        if name in abi.volatile and name not in results:
            continue
        what = "the result in " if name in results else ""
        expect(now == was, f"{what}{name} is {now:x}, not {was:x}", start)
    for name, mask in abi.volatile.items():
        was, now = before.registers[name] & ~mask, after.registers[name] & ~mask
        expect(now == was, f"{name} is {now:x}, not {was:x}", start)
    for name, was in before.others.items():
        expect(after.others[name] == was, f"{name} is {after.others[name]:x}, not {was:x}", start)
    expect(after.stack == before.stack, "the stack of the caller is changed", start)


@check(DYNAMIC_GRAPH, "graph kept", "an enabled slot preserves the same registers")
def graph_kept(subject: PortUnderTest) -> None:
    _graph_labels(subject)
    for caller in subject.callers:
        for run in runs(subject, caller, GRAPH_RUN):
            same_state(run, subject.port.facts)


@check(DYNAMIC_GRAPH, "graph arguments", "ftrace_graph_caller finds the return address")
def graph_arguments(subject: PortUnderTest) -> None:
    """Check `prepare_ftrace_return`; a port that calls C code of its own first finds it there."""
    _graph_labels(subject)
    back = subject.base + BACK
    for caller in subject.callers:
        for run in runs(subject, caller, GRAPH_RUN):
            names = [call.name for call in run.calls]
            wrong = f"after the slots, the C functions called are {', '.join(names)}"
            expect(len(names) == 2 and names[0] == TRACER, wrong, run.ip)
            if names[1] != PREPARE:
                continue
            parent, ip, _ = run.calls[1].arguments
            expect(ip == run.ip, f"self_addr is {ip:x}", run.ip, b"", run.text)
            found = run.calls[1].parent
            holds = "no word of the stack" if found is None else f"{found:x}"
            wrong = f"*parent at {parent:x} is {holds}, not the return address {back:x}"
            expect(found == back, wrong, run.ip, b"", run.text)
        _aligned(subject, caller, GRAPH_RUN)


@check(DYNAMIC, "disabled", "a disabled site does what the compiled one does")
def disabled(subject: PortUnderTest) -> None:
    """Run both; the compiled one through the kernel's own mcount."""
    facts, kernel = subject.port.facts, subject.kernel
    mcount = kernel.symbols.address_of(facts.sites.mcount_symbols[0])
    if facts.discovery[0] != "table" or mcount is None:
        raise Absent("the kernel's mcount calls the tracer")
    for nop in facts.nops:
        edit = subject.port.with_nop(nop).make_call(subject.sites, subject.labels[CALLER])
        for row in subject.few:
            ip, _, end = bounds(subject, edit, row)
            states = []
            for compiled in (True, False):
                called = at_site(subject, edit.reversed(), row)
                if compiled:
                    called.uc.mem_write(ip, subject.sites.compiled[row].tobytes())
                    called.load(mcount)
                called.run(ip, end)
                states.append(called.state())
            text = edit.row(edit.expected, row)
            before, after = states
            run = Run(row, ip, text, True, before, after, ())
            same_state(run, facts, "as compiled", nop)


@check(DYNAMIC, "stub", "ftrace_stub returns")
def ftrace_stub_returns(subject: PortUnderTest) -> None:
    port, base = subject.port, subject.base
    ftrace_stub, back = subject.labels["ftrace_stub"], base + BACK
    uc = engine(port, base)
    uc.mem_write(base, subject.entry.code)
    effect = port.enter_call(ftrace_stub, [], base + STACK, back)
    put(uc, port, effect.registers, effect.stores)
    at, _ = run_to(uc, port, ftrace_stub, back)
    expect(at == back, f"pc is {at:x}, not {back:x}", ftrace_stub)


def _graph_labels(subject: PortUnderTest) -> None:
    """Raise `Absent` if entry.S lacks all labels of the graph tracer, `Failure` if some."""
    wanted = (GRAPH_CALL, GRAPH_CALLER, RETURN_TO_HANDLER)
    missing = [name for name in wanted if name not in subject.labels]
    if len(missing) == len(wanted):
        raise Absent(f"entry.S has no {GRAPH_CALL}")
    if missing:
        raise Failure(f"entry.S has no {', '.join(missing)}")


def _aligned(subject: PortUnderTest, caller: str, kind: str) -> None:
    """Raise `Failure` unless sp is aligned when C functions are called.

    If sp is not aligned at every site, the entry code cannot keep it aligned.
    """
    align, made = subject.port.facts.abi.stack_align, runs(subject, caller, kind)
    for run in made if all(run.aligned for run in made) else ():
        for call in run.calls:
            wrong = f"sp is {call.sp:x} when {call.name} is called: not a multiple of {align}"
            expect(call.sp % align == 0, wrong, run.ip, b"", run.text)


CHECKS = (
    *(labels, arguments, kept, trace_stop, disabled, ftrace_stub_returns, pt_regs, changed_regs),
    *(return_to_handler, graph_slot, graph_kept, graph_arguments),
)
