"""Checks of the first tier: facts, engines, calls by the machine, and a boot."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from enum import Enum

import numpy as np
from capstone import CS_GRP_BRANCH_RELATIVE, CS_GRP_CALL, CS_GRP_JUMP, CS_GRP_RET, Cs
from unicorn import Uc
from unicorn.unicorn_const import UC_HOOK_INTR

from ..arch import Port
from ..asm.assemble import assemble
from ..crash import Access, Crash, Fault
from ..errors import GuestError, NoAssemblerError
from ..kernel.kallsyms import Kallsyms
from ..kernel.kernel import load_kernel
from ..machine.machine import Machine
from ..methods import DISCOVERIES, PATCH_METHODS
from ..session.session import BOOT_LIMIT_NS, START, Session
from .bench import (
    BACK,
    PAGE,
    STACK,
    argument,
    decoder_of,
    engine,
    everything,
    is_call,
    put,
)
from .check import DYNAMIC, MACHINE, check
from .outcome import Absent, expect
from .subject import PortUnderTest

FUNCTIONS, FUNCTION_SIZE = 40, 256
"""Number of functions whose instructions are tried, and bytes of each."""

IMAGES = ("vmlinux.elf", "tracer.o", "usbcore.ko", "usbhub.ko", "crashy.ko")


@check(MACHINE, "facts", "the facts are consistent")
def facts(subject: PortUnderTest) -> None:
    facts = subject.port.facts
    expect(facts.byteorder in ("little", "big"), f"byteorder is {facts.byteorder!r}")
    expect(facts.pointer_size in (4, 8), f"pointer_size is {facts.pointer_size}")
    expect(facts.patch_methods, "patch_methods is empty")
    expect(facts.nops, "nops is empty")
    expect(facts.discovery, "discovery is empty")
    unknown = {*facts.patch_methods, *facts.discovery} - {*PATCH_METHODS, *DISCOVERIES}
    wrong = f"unknown patch method or discovery: {', '.join(sorted(unknown))}"
    expect(not unknown, wrong)
    traps = "breakpoint" in facts.patch_methods
    both = traps == (facts.breakpoint is not None)
    expect(both, "the patch method breakpoint and the fact breakpoint need each other")
    aligned = facts.sites.size % facts.insn_align == 0
    wrong = f"a site has {facts.sites.size} bytes: not a multiple of {facts.insn_align}"
    expect(aligned, wrong)
    names = [register.name for register in facts.abi.pt_regs]
    expect(len(names) == len(set(names)), "pt_regs has a register twice")
    abi = facts.abi
    used = {register.name for register in (abi.pc, abi.sp, abi.result, *abi.arguments)}
    lost = ", ".join(sorted(used - set(names)))
    expect(not lost, f"pt_regs lacks {lost}")


@check(MACHINE, "map", "the address map is aligned and fits a pointer")
def address_map(subject: PortUnderTest) -> None:
    area, bits = subject.port.facts.map, 8 * subject.port.facts.pointer_size
    values = {entry.name: getattr(area, entry.name) for entry in dataclasses.fields(area)}
    for name, value in values.items():
        expect(value % PAGE == 0, f"{name} is {value:x}: not aligned to a page")
        expect(0 <= value < 1 << bits, f"{name} is {value:x}, but addresses have {bits} bits")
    expect(len(set(values.values())) == len(values), "two areas have the same address")
    expect(area.modules < area.modules_end, "modules_end is not after modules")


@check(MACHINE, "engines", "emulator, disassembler and assembler start")
def engines(subject: PortUnderTest) -> None:
    facts = subject.port.facts
    uc = engine(subject.port, facts.map.tracer)
    for register in everything(subject.port):
        uc.reg_read(register.number)
    Cs(facts.engine.cs_arch, facts.engine.cs_mode)
    try:
        assemble(facts, ".long 0", facts.map.tracer, lambda name: None)
    except NoAssemblerError as error:
        raise Absent("the package keystone-engine is not installed") from error


@check(DYNAMIC, "breakpoint", "a breakpoint traps where the facts say")
def breakpoint_(subject: PortUnderTest) -> None:
    port, fact = subject.port, subject.port.facts.breakpoint
    if fact is None:
        raise Absent("text is not patched by breakpoint")
    uc, ip, pc = engine(port, subject.base), subject.base + PAGE, port.facts.abi.pc.number
    seen: list[tuple[int, int]] = []

    def trapped(uc: Uc, number: int, data: object) -> None:
        seen.append((number, int(uc.reg_read(pc)) - ip))
        uc.emu_stop()

    uc.hook_add(UC_HOOK_INTR, trapped)
    uc.mem_write(ip, fact.insn)
    uc.emu_start(ip, 0, count=1)
    want = [(fact.interrupt, fact.reported_at)]
    expect(seen == want, f"interrupt and pc are {seen}, not {want}", ip, b"", fact.insn)


@check(MACHINE, "images", "kernel, modules and tracer are built")
def images(subject: PortUnderTest) -> None:
    for name in IMAGES:
        subject.image(name)


@check(MACHINE, "enter_call", "the machine's calls follow the ABI")
def enter_call(subject: PortUnderTest) -> None:
    port, base = subject.port, subject.base
    abi, size = port.facts.abi, port.facts.pointer_size
    back, limit = base + BACK, 1 << 8 * size
    for given in (base + STACK + 4, base + STACK):
        values = [limit - 0x11 * (number + 1) for number in range(abi.most_arguments)]
        effect = port.enter_call(base, [values[0] - limit, *values[1:]], given, back)
        sp, pushed = effect.registers.get(abi.sp.name, 0), 0 if abi.link is not None else size
        expect(base <= sp <= given, f"sp is {sp:x}: not on the given stack")
        aligned = (sp + pushed) % abi.stack_align == 0
        expect(aligned, f"sp is {sp:x}: not aligned")
        expect(effect.registers.get(abi.pc.name) == base, "pc does not hold the function")
        uc = engine(port, base)
        put(uc, port, effect.registers, effect.stores)
        for number, value in enumerate(values):
            got = argument(port, uc, number, pushed)
            name = abi.arguments[number].name if number < len(abi.arguments) else "on the stack"
            expect(got == value, f"argument {number} ({name}) is {got:#x}, not {value:#x}")
        wrote = [*effect.stores, (sp, bytes(pushed + abi.call_frame))]
        inside = all(sp <= at and at + len(data) <= given for at, data in wrote)
        expect(inside, "the call's frame is not on the given stack")
        if abi.link is not None:
            returns = effect.registers.get(abi.link.name) == back
            expect(returns, "the link register does not hold the return address")
        else:
            pushes = bytes(uc.mem_read(sp, size)) == back.to_bytes(size, "little")
            expect(pushes, "sp does not point to the return address")


@check(MACHINE, "enter_call many", "too many arguments are refused")
def too_many(subject: PortUnderTest) -> None:
    most = subject.port.facts.abi.most_arguments
    for count in (most + 1, 20):
        try:
            subject.port.enter_call(0x1000, range(count), 0x8000, 0x2000)
        except ValueError as error:
            wrong = f"the error does not name the limit ('at most'): {error}"
            expect("at most" in str(error), wrong)
            continue
        expect(False, f"a call with {count} arguments is not refused")


@check(MACHINE, "return address", "the address after a call is recognised")
def return_address(subject: PortUnderTest) -> None:
    """Try the kernel's own instructions; where their size varies, others may look like calls."""
    port = subject.port
    width, fixed = port.facts.max_insn_size, port.facts.insn_align > 1
    calls, last, previous = 0, 0, Kind.PLAIN
    for ip, text, kind in _instructions(subject):
        size = len(text)
        follows, last, of_last = last == ip, ip + size, previous
        previous = kind
        after = ip + size
        if kind is not Kind.PLAIN and port.has_delay_slot(text):
            after += size
        if after - width < subject.text[0]:
            continue
        before = subject.read(after - width, width)
        said = port.is_return_address(before)
        if kind is Kind.CALL:
            calls += 1
            wrong = "not recognised as a return address, although a call is before it"
            expect(said, wrong, after, b"", before)
        elif fixed and follows and Kind.CALL not in (kind, of_last):
            wrong = "recognised as a return address, although no call is before it"
            expect(not said, wrong, after, b"", before)
    expect(calls, "the kernel has no calls")
    zeros = bytes(width)
    wrong = "recognised as a return address, although zeros are before it"
    expect(not port.is_return_address(zeros), wrong, None, b"", zeros)
    expect(not port.is_return_address(b""), "recognised as a return address: no bytes before it")


@check(MACHINE, "delay slots", "branches have delay slots or have none")
def delay_slots(subject: PortUnderTest) -> None:
    port = subject.port
    slots = port.facts.engine.branches is not None
    for ip, text, kind in _instructions(subject):
        said, want = port.has_delay_slot(text), slots and kind is not Kind.PLAIN
        wrong = f"has_delay_slot says {said}, the disassembler {want}"
        expect(said == want, wrong, ip, b"", text)


class Kind(Enum):
    """Kinds of instructions."""

    PLAIN = "no branch"
    BRANCH = "a branch, but no call"
    CALL = "a call"


_GROUPS = (CS_GRP_JUMP, CS_GRP_CALL, CS_GRP_RET, CS_GRP_BRANCH_RELATIVE)


def _instructions(subject: PortUnderTest) -> Iterator[tuple[int, bytes, Kind]]:
    """Yield address, bytes and kind of some instructions of the kernel's functions."""
    port, decoder = subject.port, decoder_of(subject.port)
    kinds: dict[str, Kind] = {}
    starts = sorted({subject.start_of(int(ip)) for ip in subject.ips})
    for start in starts[:: max(len(starts) // FUNCTIONS, 1)]:
        text = subject.read(start, min(FUNCTION_SIZE, subject.text[1] - start))
        for insn_at, size, mnemonic, _ in decoder.disasm_lite(text, start):
            insn = text[insn_at - start : insn_at - start + size]
            if mnemonic not in kinds:
                kinds[mnemonic] = _kind(port, insn, insn_at)
            yield insn_at, insn, kinds[mnemonic]


def _kind(port: Port, text: bytes, ip: int) -> Kind:
    if is_call(port, text, ip):
        return Kind.CALL
    decoder = decoder_of(port)
    decoder.detail = True
    insn = next(decoder.disasm(text, ip, 1))
    known = insn.mnemonic in port.facts.engine.cs_returns
    grouped = known or any(insn.group(group) for group in _GROUPS)
    return Kind.BRANCH if grouped else Kind.PLAIN


@check(MACHINE, "boot", "the kernel boots with its sites as compiled")
def boot(subject: PortUnderTest) -> None:
    machine = _booted(subject)
    expect(machine.vcpus[0].idle_calls > 0, "CPU 0 never slept")
    expect(not machine.oopses, "; ".join(str(each) for each in machine.oopses))


@check(MACHINE, "oops", "a fault gives an oops in the port's format")
def oops(subject: PortUnderTest) -> None:
    """Call unmapped memory, then bytes that are not an instruction."""
    for illegal in (False, True):
        machine = _booted(subject)
        place = PAGE // 2
        if illegal:
            place = _last_function(subject)
            no_insn = _no_instruction(subject.port, place)
            machine.memory.write(place, no_insn)
            machine.flush(place, place + len(no_insn))
        try:
            machine.requests.call(place, ())
        except GuestError:
            what = "text that is no instruction" if illegal else "unmapped memory"
            expect(machine.oopses, f"a call of {what} stops the machine without an oops")
            expect(all(each.report for each in machine.oopses), "the report of the oops is empty")
            pc = machine.oopses[0].pc
            by_code = illegal or subject.port.facts.abi.toc is None  # else a descriptor is read
            expect(pc == place or not by_code, f"the oops is at {pc:x}, not at {place:x}", place)
            continue
        expect(False, f"a call of {place:x} returns instead of causing an oops")


def _last_function(subject: PortUnderTest) -> int:
    """Return the address of the kernel's last function, which the machine's calls do not use."""
    symbols, prefix = subject.kernel.symbols, subject.port.facts.abi.text_prefix
    rows = np.flatnonzero(symbols.functions).tolist()
    code = range(*subject.text)
    places = [int(symbols.address[row]) for row in rows if symbols.names[row].startswith(prefix)]
    return max(place for place in places if place in code)


def _no_instruction(port: Port, place: int) -> bytes:
    """Return text that the disassembler does not know. Raises `Absent`."""
    decoder = decoder_of(port)
    for text in (b"\xff" * 8, bytes(8), b"\x7f\xff\xff\xff" * 2, b"\x4c\x00\x00\xff" * 2):
        if not next(decoder.disasm_lite(text, place, 1), None):
            return text
    raise Absent("every text is an instruction")


def _right_registers(said: str, registers: dict[str, int]) -> None:
    """Raise `Failure` if a value is after another register's name, or a row is out of order."""
    by_value = {value: name for name, value in registers.items()}
    named = set()
    for name, value in registers.items():
        for found in re.findall(rf"\b{name}\s*: *([0-9a-f]+)", said, re.I):
            shown = by_value.get(int(found, 16), name)
            expect(shown == name, f"the report shows {shown} as {name}, not {value:x}")
            named.add(name)
    numbered = [name for name in registers if re.fullmatch(r"r\d+", name) and name not in named]
    at = [place for name in numbered if (place := said.find(f"{registers[name]:x}")) >= 0]
    expect(at == sorted(at), f"the report shows {numbered[:1]} to {numbered[-1:]} out of order")


@check(MACHINE, "oops report", "the report has address, registers and code")
def oops_report(subject: PortUnderTest) -> None:
    port, abi = subject.port, subject.port.facts.abi
    limit = 1 << 8 * port.facts.pointer_size
    registers = {
        register.name: (0x0BAD_0000_1234_5000 + 0x111 * number) % limit
        for number, register in enumerate(abi.pt_regs)
    }
    pc, align = subject.base + 0x40, max(port.facts.insn_align, 1)
    registers[abi.pc.name] = pc - pc % align
    text = bytes(0x30 + number for number in range(0x80))
    address = (0x0DEC_0000_0ABC_DE00) % limit
    firsts = set()
    for access in (Access.READ, Access.WRITE, Access.ILLEGAL):
        crash = Crash(
            fault=Fault(access, None if access is Access.ILLEGAL else address),
            count=7,
            cpu=5,
            pid=4321,
            registers=registers,
            text=text,
            text_address=subject.base,
            stack=b"",
            trace=(pc + 0x1000, pc + 0x2000),
            symbol=lambda at: f"function_{at:x}",
        )
        lines = port.oops(crash)
        expect(lines, "the report is empty")
        expect(not any("\n" in line for line in lines), "a line of the report has a line end")
        said = "\n".join(lines)
        firsts.add((lines[0], access is Access.ILLEGAL))
        for name, value in (("number", "#7"), ("CPU", "5"), ("PID", "4321")):
            expect(value in said, f"the report lacks the {name} of the crash: {value}")
        if crash.fault.address is not None:
            expect(f"{address:x}" in said, f"the report lacks the address {address:x}")
        missing = [name for name, value in registers.items() if f"{value:x}" not in said]
        named = {each.name for each in (abi.pc, abi.sp, abi.result, *abi.arguments)}
        expect(not named & {*missing}, f"the report lacks {', '.join(missing)}")
        # A kernel's report omits a register that is always zero, and registers that only interrupts
        # use.
        expect(len(missing) <= 3, f"the report lacks {', '.join(missing)}")
        _right_registers(said, registers)
        symbol = f"function_{registers[abi.pc.name]:x}"
        expect(symbol in said, f"the report lacks the function of {abi.pc.name}")
        there = text[registers[abi.pc.name] - subject.base :][:4]
        plain = re.sub(r"[ <>()]", "", said)
        shown = there.hex() in plain or there[::-1].hex() in plain
        expect(shown, "the report lacks the code at pc", registers[abi.pc.name], there, b"")
    illegal = {line for line, is_illegal in firsts if is_illegal}
    others = {line for line, is_illegal in firsts if not is_illegal}
    expect(not illegal & others, "the report does not say what has happened")


def _booted(subject: PortUnderTest) -> Machine:
    """Return a machine that has booted and is idle, without ftrace if a table lists the sites."""
    port, kernel = subject.port, subject.kernel
    if port.facts.discovery[0] != "table":
        # This kernel's mcount calls code of the tracer, so it cannot run without ftrace.
        return Session.open(port).boot.machine
    kallsyms = Kallsyms()
    kallsyms.add(kernel.symbols)
    machine = Machine(port, 2, symbols=kallsyms)
    load_kernel(port, kernel, machine.memory)
    entry = kernel.symbols.address_of(START)
    if entry is None:
        raise Absent(f"the kernel has no {START}")
    machine.start(entry, None)
    first = machine.vcpus[0]
    machine.run_until(lambda: first.idle_calls > 0, BOOT_LIMIT_NS, "the boot")
    return machine


CHECKS = (
    *(facts, address_map, engines, images, enter_call, too_many, boot, oops, oops_report),
    *(delay_slots, return_address, breakpoint_),
)
