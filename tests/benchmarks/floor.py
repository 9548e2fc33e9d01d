"""What the emulator takes at least for a traced call: the calls, and the accesses to memory.

Loops on x86-64 make the calls, jumps, branches and returns of a traced call, save and restore the
registers, and load and store the words that an event needs, with one instruction of arithmetic for
each. They check nothing and pack no fields. Each access is a look-up in the emulator's TLB, and
each block of code a call of the clock's hook and, after a return, a look-up of the next block.
"""

from __future__ import annotations

from collections.abc import Callable

from dynftrace.core.asm.assemble import assemble
from dynftrace.core.session.session import Session

from .guest import CALLS, LIMIT, LOOP

CHECKS = 1.15
"""What a tracer may take as a multiple of these loops, which check nothing and pack no fields."""

REASON = "the calls and the accesses to memory alone, and 15 % for the checks"
"""What limits a tracer, for the tables."""

DATA = LOOP + 0x1000
SAVED = 9
"""Registers that ftrace_caller saves."""

FUNCTION = (12, 10)
"""Loads and stores of function_trace_call.

Loads: irqs_disabled, preempt_count with need_resched and migrate_disable, trace_recursion; flags,
nr_pages and tail_page; pages; the page's commit word; the clock; write_stamp, entries, pid. Stores:
irqs_disabled twice, write_stamp, entries, header, type, pid, ip, parent_ip, the commit word.
"""

ENTRY = (23, 17)
"""Those of prepare_ftrace_return: as above, with the depth for parent_ip.

Loads also: fgraph.slow_entry, ftrace_pid_list, ret_stack, its index with the depth, notrace_index,
*parent, return_to_handler; the clock for calltime. Stores also: ret, func, fp, told and calltime of
the entry on ret_stack; its index with the depth; *parent. tail_page, ret_stack and its index are
loaded twice, and a register is saved: x86-64 has nine registers that a function need not save.
"""

RETURN = (25, 14)
"""Those of ftrace_return_to_handler: as above.

Loads also: fgraph.slow_return, ret_stack, its index with the depth, graph_depth, overrun, and fp,
told, func, calltime and ret of its entry; the clock for rettime. Stores also: retval, depth,
overrun, calltime and rettime for parent_ip; the index with the depth of ret_stack. tail_page,
ret_stack and its index are loaded twice.
"""


def function(session: Session) -> Callable[[], None]:
    """Return a run of the least that tracing a call takes."""
    caller = _caller(f"call tracer; {_restore()} ret; tracer: {_tracer(FUNCTION)}")
    return _run(session, caller)


def graph(session: Session) -> Callable[[], None]:
    """Return a run of the least that tracing a call and its return takes."""
    return _run(
        session,
        _caller(
            "call stub; jmp prepare; stub: ret; "
            f"prepare: mov rdi, [rsp + 80]; call entry; {_restore()} ret; "
            f"entry: {_tracer(ENTRY)} "
            "handler: sub rsp, 32; mov [rsp], rax; mov [rsp + 8], rdx; call return; "
            "mov rax, [rsp]; mov rdx, [rsp + 8]; add rsp, 32; ret; "
            f"return: {_tracer(RETURN)}",
            returns="call handler; ",
        ),
    )


def _caller(rest: str, returns: str = "") -> str:
    """Return a traced function, and an ftrace_caller that goes on with `rest`."""
    saved = "".join(f"mov [rsp + {8 * row}], rax; " for row in range(SAVED))
    # function_trace_stop, which is tested; ip, parent_ip and op.
    stop = "cmp dword ptr [r15], 0; jne never; "
    loads = "mov rdi, [rsp + 80]; mov rsi, [rsp + 88]; mov rdx, [r15 + 8]; "
    return f"traced: call caller; {returns}ret; caller: {stop}sub rsp, 80; {saved}{loads}{rest}"


def _restore() -> str:
    return "".join(f"mov r8, [rsp + {8 * row}]; " for row in range(SAVED)) + "add rsp, 80; "


def _tracer(accesses: tuple[int, int]) -> str:
    """Return a function with so many loads and stores, a check before them and one after."""
    loads, stores = accesses
    read = "".join(f"mov r9, [r15 + {64 + 8 * row}]; add r10, r9; " for row in range(loads))
    written = (f"add r9, r10; mov [r15 + {512 + 8 * row}], r9; " for row in range(stores))
    return f"test r15, r15; jz never; {read}{''.join(written)}test r15, r15; jz never; ret; "


def _run(session: Session, traced: str) -> Callable[[], None]:
    machine = session.boot.machine
    machine.memory.map(LOOP, 8192, "floor")
    source = (
        f"push rbx; push r15; mov r15, {DATA}; mov ebx, {CALLS}; again: mov edi, ebx; call traced; "
        f"dec ebx; jnz again; pop r15; pop rbx; never: ret; {traced}"
    )
    machine.memory.write(LOOP, assemble(session.port.facts, source, LOOP, lambda name: None).code)

    def run() -> None:
        machine.requests.call(LOOP, limit_ns=LIMIT)

    return run
