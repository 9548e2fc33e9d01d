"""A bare engine that runs a few instructions of a port, for checks."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Literal

import numpy as np
from capstone import CS_GRP_CALL, Cs
from unicorn import Uc
from unicorn.unicorn_const import UC_CTL_IO_WRITE, UC_CTL_TLB_TYPE, UC_TLB_VIRTUAL

from ..arch import Edit, Port
from ..facts import Register
from .outcome import expect
from .subject import PortUnderTest

PAGE = 4096
SIZE = 16 * PAGE
"""Size of the memory for the entry code, in bytes."""

STACK = 8 * PAGE
BACK = 12 * PAGE
"""Offsets from the start of the entry code, in bytes: the top of a stack, and a return address."""

_LIMIT = 1000


def everything(port: Port) -> list[Register]:
    """Return every register that the port names, some of them twice."""
    abi = port.facts.abi
    named = [abi.pc, abi.sp, abi.result, *abi.arguments, *abi.results, *abi.pt_regs, *abi.floats]
    named += [register for register, _ in abi.controls]
    return named if abi.link is None else [*named, abi.link]


def engine(port: Port, base: int) -> Uc:
    """Return an emulator with `SIZE` bytes of memory at `base`."""
    uc = Uc(port.facts.engine.uc_arch, port.facts.engine.uc_mode)
    if port.facts.engine.uc_cpu is not None:
        uc.ctl_set_cpu_model(port.facts.engine.uc_cpu)
    uc.ctl(UC_CTL_TLB_TYPE, UC_CTL_IO_WRITE, ctypes.c_int(UC_TLB_VIRTUAL))
    uc.mem_map(base, SIZE)
    return uc


def put(
    uc: Uc,
    port: Port,
    registers: Mapping[str, int],
    stores: Sequence[tuple[int, bytes]] = (),
) -> None:
    """Set registers by name, and store bytes."""
    numbers = {register.name: register.number for register in everything(port)}
    for name, value in registers.items():
        uc.reg_write(numbers[name], value)
    for address, data in stores:
        uc.mem_write(address, data)


def registers(uc: Uc, port: Port) -> dict[str, int]:
    """Return the registers that an interrupt saves, by name."""
    return {r.name: int(uc.reg_read(r.number)) for r in port.facts.abi.pt_regs}


def run_to(
    uc: Uc, port: Port, start: int, end: int, past: Collection[int] = ()
) -> tuple[int, list[int]]:
    """Run from `start` until pc is `end`, one instruction at a time.

    Return pc, and the addresses of `past` that it passed. The engine's own `until` is not used,
    because on some architectures it leaves pc at the start of the block.
    """
    at, seen = start, []
    for _ in range(_LIMIT):
        uc.emu_start(at, 0, count=1)
        at = int(uc.reg_read(port.facts.abi.pc.number))
        if at in past:
            seen.append(at)
        if at == end:
            break
    return at, seen


def entered(subject: PortUnderTest, start: int, end: int) -> Uc:
    """Return an engine that is about to enter the function at `start` and returns to `BACK`.

    It has the entry code and the text of the function from `start` to `end`, if the two differ.
    Each word of the stack has a distinct value, and so has each register, except those that are not
    0 in a new engine: they hold the CPU's state.
    """
    port, base = subject.port, subject.base
    uc = engine(port, base)
    if end > start:
        uc.mem_map(start // PAGE * PAGE, 2 * PAGE)
        uc.mem_write(start, subject.read(start, end - start))
    uc.mem_write(base, subject.entry.code)
    put_called(uc, subject)
    uc.mem_write(base + STACK - PAGE, STACK_CONTENTS)
    abi, high = port.facts.abi, 1 << 40 if port.facts.pointer_size == 8 else 0
    values = {
        r.name: 0x1000 + number + high * (number + 1)
        for number, r in enumerate(abi.pt_regs)
        if not uc.reg_read(r.number)
    }
    values |= {r.name: (0x2000 + number) * _ALL_BYTES for number, r in enumerate(abi.floats)}
    values |= {register.name: value for register, value in abi.controls}
    if abi.toc is not None:
        values[abi.toc.register.name] = TOC
    call = port.enter_call(start, [1, 2, 3, 4], base + STACK, base + BACK)
    put(uc, port, {**values, **call.registers}, call.stores)
    return uc


_ALL_BYTES = 0x0001_0001_0001_0001_0001_0001_0001_0001
"""Factor that puts 16 bits into each part of a register of 128 bits; smaller ones take the rest."""

STACK_CONTENTS = np.arange(0x5000, 0x5000 + (PAGE + PAGE // 8) // 4, dtype="<u4").tobytes()
"""The stack, and what is above it, when a function is entered."""

TOC = 0x7700_0000_1234_5678
"""The TOC pointer of the kernel and its tracer, if the ABI has one."""


STOP = 1
"""Value of function_trace_stop that stops tracing."""


def stop(uc: Uc, subject: PortUnderTest, address: int) -> None:
    """Set the word function_trace_stop at `address`, an unsigned int."""
    little = subject.port.facts.byteorder == "little"
    uc.mem_write(address, STOP.to_bytes(4, "little" if little else "big"))


FUNCTION = 32
"""Offset of a function's code from its descriptor in bytes, if the ABI has descriptors."""


def put_called(uc: Uc, subject: PortUnderTest) -> None:
    """Store the C functions that the entry code calls; each of them returns at once."""
    facts = subject.port.facts
    little = facts.byteorder == "little"
    ftrace_stub = subject.entry.symbols["ftrace_stub"]
    returns = subject.entry.code[ftrace_stub : ftrace_stub + 2 * facts.max_insn_size]
    for place in subject.called.values():
        code = place
        if facts.abi.toc is not None:
            code = code_of(subject, place)
            order: Literal["little", "big"] = "little" if little else "big"
            words = (code.to_bytes(facts.pointer_size, order), TOC.to_bytes(8, order))
            uc.mem_write(place, b"".join(words))
        uc.mem_write(code, returns)


def code_of(subject: PortUnderTest, place: int) -> int:
    """Return the address of the code of the C function at `place`."""
    return place if subject.port.facts.abi.toc is None else place + FUNCTION


def argument(port: Port, uc: Uc, number: int, pushed: int = 0) -> int:
    """Return argument `number`, counted from 0, of the function at pc or about to be called.

    `pushed` is the size of the return address in bytes if the call has pushed it.
    """
    abi, size = port.facts.abi, port.facts.pointer_size
    if number < len(abi.arguments):
        return int(uc.reg_read(abi.arguments[number].number))
    at = stack_argument(port, uc.reg_read(abi.sp.number) + pushed, number)
    little = port.facts.byteorder == "little"
    return int.from_bytes(uc.mem_read(at, size), "little" if little else "big")


def stack_argument(port: Port, sp: int, number: int) -> int:
    """Return the address of argument `number`, which no register holds; `sp` is the caller's."""
    abi = port.facts.abi
    return sp + abi.call_frame + (number - len(abi.arguments)) * port.facts.pointer_size


def decoder_of(port: Port) -> Cs:
    """Return the port's disassembler."""
    return _decoder(port.facts.engine.cs_arch, port.facts.engine.cs_mode)


@cache
def _decoder(arch: int, mode: int) -> Cs:
    return Cs(arch, mode)


def is_call(port: Port, text: bytes, ip: int) -> bool:
    """Return whether `text` begins with a call, according to Capstone."""
    decoder = decoder_of(port)
    decoder.detail = True
    insn = next(decoder.disasm(text, ip, 1), None)
    if insn is None:
        return False
    return bool(insn.group(CS_GRP_CALL)) or insn.mnemonic in port.facts.engine.cs_calls


def call_size(port: Port, text: bytes, ip: int) -> int:
    """Return the size in bytes of the first instruction of `text`, with its delay slot."""
    insn = next(decoder_of(port).disasm(text, ip, 1), None)
    expect(insn is not None, "the disassembler finds no instruction", ip, b"", text)
    assert insn is not None
    return int(insn.size) * (2 if port.has_delay_slot(text) else 1)


def call_offset(port: Port, edit: Edit, row: int) -> int:
    """Return the offset of the call in a site: the first instruction that `edit` changes."""
    first = int(np.argmax(edit.expected[row] != edit.replacement[row]))
    return first // port.facts.insn_align * port.facts.insn_align
