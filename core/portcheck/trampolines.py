"""Checks of trampolines, if the port makes them: on a bare engine, and in use."""

from __future__ import annotations

from collections.abc import Iterator

from unicorn import Uc

from ..arch import TrampolineCode, trampolines_of
from ..ftrace.ops import FtraceHash, FtraceOps
from .bench import BACK, PAGE, argument, entered, registers, run_to, stop
from .check import TRAMPOLINES, check
from .outcome import Absent, Failure, expect, same_text
from .subject import PortUnderTest
from .traced import TRACE_STOP
from .user import User

AT, FUNC = 2 * PAGE, 3 * PAGE
"""Offsets from the start of the entry code: a trampoline, and the function that it calls."""

OP = 0x5A5A1234
EXAMPLE, OTHER = "schedule", "filemap_read"
"""Functions that `run syscalls` calls, one for each user."""


@check(TRAMPOLINES, "trampoline", "it does the same as its caller, for one user")
def trampoline(subject: PortUnderTest) -> None:
    port, func = subject.port, subject.base + FUNC
    for made in _made(subject):
        slot = subject.base + AT + made.slot
        edit = port.update_ftrace_func(slot, func, func)
        at, text = int(edit.address[0]) - subject.base - AT, edit.row(edit.expected, 0)
        found = made.code[at : at + len(text)]
        same_text("the slot does not call the user's function", slot, text, found)
        for row in subject.some:
            nop, call = (_Site(subject, made, row, enabled) for enabled in (False, True))
            uc = call.enter()
            at, _ = run_to(uc, port, call.start, func)
            wrong = f"the user's function is not reached; pc is {at:x}"
            expect(at == func, wrong, call.ip, b"", call.text)
            got = [argument(port, uc, number) for number in range(3)]
            want = [call.ip, subject.base + BACK, OP]
            said = [f"{each:x} instead of {right:x}" for each, right in zip(got, want, strict=True)]
            wrong = f"the user's function gets {', '.join(said)}"
            expect(got == want, wrong, call.ip, b"", call.text)
            before = nop.leave(nop.enter(), nop.start)
            call.same(before, call.leave(uc, func))
            if TRACE_STOP in subject.labels:
                uc = call.enter()
                stop(uc, subject, subject.labels[TRACE_STOP])
                call.same(before, call.leave(uc, call.start, func))


@check(TRAMPOLINES, "own trampolines", "each user has its own; the text is restored")
def own(subject: PortUnderTest) -> None:
    if trampolines_of(subject.port) is None:
        raise Absent("the port makes no trampolines of single users")
    user = User(subject)
    ftrace = user.session.boot.ftrace
    before, rows = user.text(), [user.row(name) for name in (EXAMPLE, OTHER)]
    user(f"echo {user.prefix}{EXAMPLE} > set_ftrace_filter; echo function > current_tracer")
    alone = ftrace.state(rows[0]).target
    shared = alone == ftrace.entry["ftrace_caller"]
    expect(shared, f"the site of a single user calls {alone:x}, not ftrace_caller")
    ips = ftrace.records.table["ip"][rows]
    counter = FtraceOps("counter", ftrace.entry["function_count_call"], FtraceHash.of(ips[1:]))
    ftrace.register(counter)
    called = [ftrace.state(row).target for row in rows]
    expect(len({*called, alone}) == 3, "the users share a trampoline")
    user("run syscalls")
    expect(len(user.events()) > 5, f"only {len(user.events())} calls of {EXAMPLE} are traced")
    memory, count = user.session.boot.machine.memory, ftrace.entry["function_count"]
    expect(any(memory.read(count, 64)), f"no call of {OTHER} is counted")
    for row in rows:
        hops = user.session.call_path(ftrace.records.ip_of(row))
        wrong = [hop.note for hop in hops if not hop.verified]
        expect(not wrong, f"the path of a call is wrong: {wrong}")
    ftrace.unregister(counter)
    again = ftrace.state(rows[0]).target == alone
    expect(again, "the site of the last user does not call ftrace_caller again")
    user("echo nop > current_tracer")
    user.alive()
    user.same_text(before)


class _Site:
    """A call site, enabled or not, on an engine with the trampoline."""

    def __init__(
        self, subject: PortUnderTest, made: TrampolineCode, row: int, enabled: bool
    ) -> None:
        self._subject, self._made = subject, made
        edit = subject.port.make_call(subject.sites, subject.base + AT)
        self.ip, self._at = int(subject.sites.ip[row]), int(edit.address[row])
        self.text = edit.row(edit.replacement if enabled else edit.expected, row)
        self.start, self._end = subject.start_of(self.ip), self._at + len(self.text)

    def enter(self) -> Uc:
        """Return an engine that is about to enter the site's function."""
        subject, base = self._subject, self._subject.base
        ftrace_stub = subject.entry.symbols["ftrace_stub"]
        size = 2 * subject.port.facts.max_insn_size
        returns = subject.entry.code[ftrace_stub : ftrace_stub + size]
        uc = entered(subject, self.start, self._end)
        uc.mem_write(self._at, self.text)
        for offset, code in ((AT, self._made.code), (FUNC, returns)):
            uc.mem_write(base + offset, code)
        return uc

    def leave(self, uc: Uc, start: int, never: int | None = None) -> dict[str, int]:
        """Run from `start` and return the registers after the site.

        Raises `Failure` if pc passes `never`.
        """
        port = self._subject.port
        at, seen = run_to(uc, port, start, self._end, () if never is None else (never,))
        wrong = f"execution does not leave the site; pc is {at:x}"
        expect(at == self._end, wrong, self.ip, b"", self.text)
        expect(not seen, f"{TRACE_STOP} does not disable the call", self.ip, b"", self.text)
        return registers(uc, port)

    def same(self, before: dict[str, int], after: dict[str, int]) -> None:
        """Raise `Failure` for a register that differs and that a site must preserve."""
        for name, value in before.items():
            if name not in self._subject.port.facts.sites.clobbers:
                wrong = f"{name} is {after[name]:x} after it, but {value:x} after the nop"
                expect(after[name] == value, wrong, self.ip, b"", self.text)


def _made(subject: PortUnderTest) -> Iterator[TrampolineCode]:
    """Yield a trampoline of each caller. Raises `Absent` and `Failure`."""
    maker, base = trampolines_of(subject.port), subject.base
    if maker is None:
        raise Absent("the port makes no trampolines of single users")
    for caller in subject.callers:
        made = maker.make(subject.entry, base, caller, base + AT, base + FUNC, OP)
        if made is None:
            raise Failure(f"no trampoline is made of {caller}", subject.labels[caller])
        yield made


CHECKS = (trampoline, own)
