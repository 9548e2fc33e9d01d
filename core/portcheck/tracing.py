"""Checks of the user's view: traced functions, restored text, refused damage."""

from __future__ import annotations

from ..errors import DynftraceError
from ..session.session import MachineSpec
from .check import DYNAMIC, FUNCTION_TRACER, check
from .damage import all_noticed
from .outcome import expect, same_text
from .subject import PortUnderTest
from .user import User

EXAMPLE = "schedule"
"""A function that all workloads call."""


@check(FUNCTION_TRACER, "function", "functions are traced with their callers")
def function(subject: PortUnderTest) -> None:
    user = User(subject)
    name = user.prefix + EXAMPLE
    user.row(EXAMPLE)
    user(f"echo {name} > set_ftrace_filter; echo function > current_tracer; run syscalls")
    events = user.events()
    expect(len(events) > 5, f"only {len(events)} calls of {name} are traced")
    known = {symbol.name for symbol in user.session.boot.kallsyms.functions()}
    for line in events:
        called, _, caller = line.partition(": ")[2].partition(" <-")
        expect(called == name, f"{called} is traced, not {name}")
        expect(caller in known, f"the caller {caller!r} is not a known function")
    user("echo 1 > options/func_stack_trace; echo > trace; run syscalls")
    rows = iter(user("cat trace").splitlines())
    for row in rows:
        called, to, caller = row.partition(": ")[2].partition(" <-")
        if to and "<stack trace>" in next(rows, ""):
            stack = [next(rows, "").removeprefix(" => ").split()[:1] for _ in range(2)]
            wrong = f"the stack of {called} <-{caller} begins with {stack}"
            expect(stack == [[called], [caller]], wrong)


@check(FUNCTION_TRACER, "all functions", "the kernel works while everything is traced")
def everything(subject: PortUnderTest) -> None:
    user = User(subject)
    before, quiet = user.text(), user("run syscalls")
    user("echo function > current_tracer")
    said = user("run syscalls")
    expect(said == quiet, f"`run syscalls` prints {said!r}, but untraced {quiet!r}")
    seen = {line.partition(": ")[2].partition(" <-")[0] for line in user.events()}
    expect(len(seen) > 60, f"only {len(seen)} functions are traced")
    user("echo nop > current_tracer")
    user.alive()
    user.same_text(before)


@check(DYNAMIC, "refused", "a site with unexpected bytes is refused")
def refused(subject: PortUnderTest) -> None:
    user = User(subject)
    records, memory = user.session.boot.ftrace.records, user.session.boot.machine.memory
    ip = int(records.table["ip"][user.row(EXAMPLE)])
    all_noticed(subject, user, user.row(EXAMPLE))
    size = subject.port.facts.sites.size
    other = bytes(byte ^ 0xFF for byte in memory.read(ip, size))
    user(f"poke 0x{ip:x} {other.hex()}")
    before = user.text()
    error = user.refused("echo function > current_tracer")
    named = f"ftrace failed to modify [<{ip:08x}>]" in error
    expect(named, f"the error does not name the site: {error.strip()}", ip)
    user.same_text(before)
    same_text("the refused site is written", ip, other, memory.read(ip, size))


@check(DYNAMIC, "patch methods", "text changes and is restored while CPUs run")
def methods(subject: PortUnderTest) -> None:
    """Try all methods but `none`, with which a CPU may fetch half an instruction on purpose."""
    for method in subject.port.facts.patch_methods:
        if method == "none":
            continue
        user = User(subject, MachineSpec(patch=method, cpus=4))
        before = user.text()
        try:
            user("echo function > current_tracer; run boot; run syscalls")
            user("echo nop > current_tracer")
        except DynftraceError as error:
            expect(False, f"{method}: {error}")
        user.alive()
        user.same_text(before)


CHECKS = (function, everything, refused, methods)
