"""Checks of the first tier: facts, engines, calls by the machine, and a boot."""

from __future__ import annotations

import dataclasses

from capstone import Cs

from ..asm.assemble import assemble
from ..errors import GuestError
from ..kernel.kallsyms import Kallsyms
from ..kernel.kernel import load_kernel
from ..machine.machine import Machine
from ..session.session import BOOT_LIMIT_NS, START
from .bench import BACK, PAGE, STACK, engine, everything
from .check import MACHINE, check
from .outcome import Absent, expect
from .subject import PortUnderTest

IMAGES = ("vmlinux.elf", "tracer.o", "usbcore.ko", "usbhub.ko", "crashy.ko")


@check(MACHINE, "facts", "the facts are consistent")
def facts(subject: PortUnderTest) -> None:
    facts = subject.port.facts
    known = {"stop_machine", "breakpoint", "none"}
    expect(facts.byteorder in ("little", "big"), f"byteorder is {facts.byteorder!r}")
    expect(facts.pointer_size in (4, 8), f"pointer_size is {facts.pointer_size}")
    expect(facts.patch_methods, "patch_methods is empty")
    expect(facts.nops, "nops is empty")
    expect(facts.discovery, "discovery is empty")
    unknown = {*facts.patch_methods, *facts.discovery} - known - {"table", "ftraced"}
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
    assemble(facts, ".long 0", facts.map.tracer, lambda name: None)


@check(MACHINE, "images", "kernel, modules and tracer are built")
def images(subject: PortUnderTest) -> None:
    for name in IMAGES:
        subject.image(name)


@check(MACHINE, "enter_call", "the machine's calls follow the ABI")
def enter_call(subject: PortUnderTest) -> None:
    port, base = subject.port, subject.base
    abi = port.facts.abi
    back, count = base + BACK, min(4, len(abi.arguments))
    values = [0x11 * (number + 1) for number in range(count)]
    effect = port.enter_call(base, values, base + STACK + 4, back)
    for register, value in zip(abi.arguments, values, strict=False):
        got = effect.registers.get(register.name)
        expect(got == value, f"{register.name} is {got}, not {value:#x}")
    sp = effect.registers.get(abi.sp.name, 0)
    expect(base <= sp <= base + STACK + 4, f"sp is {sp:x}: not on the given stack")
    pushed = 0 if abi.link is not None else port.facts.pointer_size
    expect((sp + pushed) % abi.stack_align == 0, f"sp is {sp:x}: not aligned")
    returns = abi.link is None or effect.registers.get(abi.link.name) == back
    expect(returns, "the link register does not hold the return address")


@check(MACHINE, "enter_call many", "too many arguments are refused")
def too_many(subject: PortUnderTest) -> None:
    try:
        subject.port.enter_call(0x1000, range(20), 0x8000, 0x2000)
    except ValueError as error:
        expect("at most" in str(error), f"the error does not name the limit ('at most'): {error}")
        return
    expect(False, "a call with 20 arguments is not refused")


@check(MACHINE, "boot", "the kernel boots with its sites as compiled")
def boot(subject: PortUnderTest) -> None:
    machine = _booted(subject)
    expect(machine.vcpus[0].idle_calls > 0, "CPU 0 never slept")
    expect(not machine.oopses, "; ".join(str(each) for each in machine.oopses))


@check(MACHINE, "oops", "a fault gives an oops in the port's format")
def oops(subject: PortUnderTest) -> None:
    machine = _booted(subject)
    try:
        machine.requests.call(PAGE // 2, ())
    except GuestError:
        expect(machine.oopses, "a call of unmapped memory stops the machine without an oops")
        expect(all(each.report for each in machine.oopses), "the report of the oops is empty")
        return
    expect(False, "a call of unmapped memory returns instead of causing an oops")


def _booted(subject: PortUnderTest) -> Machine:
    """Return a machine that has booted and is idle, without ftrace if a table lists the sites."""
    port, kernel = subject.port, subject.kernel
    if port.facts.discovery[0] != "table":
        # This kernel's mcount calls code of the tracer, so it cannot run without ftrace.
        return subject.session().boot.machine
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


CHECKS = (facts, address_map, engines, images, enter_call, too_many, boot, oops)
