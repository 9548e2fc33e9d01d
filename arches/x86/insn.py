"""x86 instructions that ftrace writes and meets, an encoder and a decoder for each format.

What this ISA does to ftrace. Instructions are 1 to 15 bytes long and need no
alignment, so the five bytes of a call site may straddle a cache line, and a
CPU may be about to fetch any of them: a plain store over a running site can be
seen half done. There are two solutions: stop every CPU, or write a one-byte `int3`
first, then the other bytes, and the first byte last. The rest is simple: one
`call rel32` reaches +-2 GB, which is everything if addresses have 32 bits, and a
64-bit kernel has its modules beside it in the top 2 GB. So no site ever needs a
stub. The compiler's `-mfentry` puts the site first in the function, before
anything is pushed: the stack holds the return address into the function and,
above it, the return address to its caller, and all arguments that come in
registers are still there.

    Compiled    e8 rel32          call __fentry__     (or a nop: COMPILED_NOPS)
    Disabled    0f 1f 44 00 00    nopl 0(%rax,%rax,1)             in 64 bits
                3e 8d 74 26 00    leal %ds:0(%esi,%eiz,1),%esi    in 32 bits
    Enabled     e8 rel32          call ftrace_caller

A relative branch counts from the end of its instruction, and addresses wrap:
target = ip + 5 + rel32, modulo 2**32 or 2**64.

A 32-bit CPU may be older than the `nop` with an operand (0f 1f, since the Pentium
Pro), so a 32-bit kernel's nops load a register with its own value.

Sources: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2:
CALL, JMP, INT 3, and NOP with its table of recommended multi-byte sequences; the
kernel's arch/x86/include/asm/nops.h for those of 32 bits.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ...core.arch import Addresses, Bytes

INT3 = bytes.fromhex("cc")
"""`int3`: the one-byte breakpoint."""

CALL = 0xE8
"""First byte of `call rel32`."""

JMP = 0xE9
"""First byte of `jmp rel32`."""

JMP8 = 0xEB
"""First byte of `jmp rel8`."""

REL32_SIZE = 5
JMP8_SIZE = 2

NOPS64: Mapping[int, bytes] = {
    1: bytes.fromhex("90"),  # nop
    2: bytes.fromhex("66 90"),  # 66 nop
    3: bytes.fromhex("0f 1f 00"),  # nop dword ptr [rax]
    4: bytes.fromhex("0f 1f 40 00"),  # nop dword ptr [rax + 0], 8-bit displacement
    5: bytes.fromhex("0f 1f 44 00 00"),  # nop dword ptr [rax + rax + 0], 8-bit displacement
    6: bytes.fromhex("66 0f 1f 44 00 00"),  # nop word ptr [rax + rax + 0], 8-bit displacement
    7: bytes.fromhex("0f 1f 80 00 00 00 00"),  # nop dword ptr [rax + 0], 32-bit displacement
    8: bytes.fromhex("0f 1f 84 00 00 00 00 00"),  # nop dword ptr [rax + rax + 0], 32-bit
    9: bytes.fromhex("66 0f 1f 84 00 00 00 00 00"),  # nop word ptr [rax + rax + 0], 32-bit
}
"""The manual's nop of each size in bytes; each is one instruction, so none can be torn."""

NOPS32: Mapping[int, bytes] = {
    1: bytes.fromhex("90"),  # nop
    2: bytes.fromhex("89 f6"),  # mov esi, esi
    3: bytes.fromhex("8d 76 00"),  # lea esi, [esi + 0], 8-bit displacement
    4: bytes.fromhex("8d 74 26 00"),  # lea esi, [esi + 0] by way of a SIB byte
    5: bytes.fromhex("3e 8d 74 26 00"),  # lea esi, ds:[esi + 0] by way of a SIB byte
    6: bytes.fromhex("8d b6 00 00 00 00"),  # lea esi, [esi + 0], 32-bit displacement
    7: bytes.fromhex("8d b4 26 00 00 00 00"),  # lea esi, [esi + 0], 32-bit, SIB
    8: bytes.fromhex("3e 8d b4 26 00 00 00 00"),  # lea esi, ds:[esi + 0], 32-bit, SIB
}
"""The kernel's nops for any 32-bit CPU; each is one instruction too."""

NOP5 = NOPS64[REL32_SIZE]
"""The disabled call site of 64-bit kernels, and the text `-mnop-mcount` leaves in all."""

COMPILED_NOPS = (NOP5, REL32_SIZE * NOPS64[1], bytes.fromhex("0f 1f 44 00 08"))
"""Text of sites that do not call mcount as compiled: by `-mnop-mcount`, and by
`-fpatchable-function-entry=5` of GCC and of clang."""


_REL32 = np.dtype([("opcode", "u1"), ("distance", "<i4")])


def rel32(
    opcode: int, ip: Addresses, target: Addresses, bits: int = 64
) -> tuple[Bytes, NDArray[np.bool_]]:
    """Encode `opcode rel32` at each `ip` towards its `target`; addresses have `bits`.

    Returns the text, shape (n, 5), and which sites reach; the bytes of a site
    that does not are all `int3`.
    """
    end = ip + np.uint64(REL32_SIZE)
    short = (target - end).view(np.int64).astype("<i4")
    reach = (end + short.astype(np.int64).view(np.uint64)) & np.uint64((1 << bits) - 1) == target
    insns = np.empty(len(ip), _REL32)
    insns["opcode"], insns["distance"] = opcode, short
    text = insns.view(np.uint8).reshape(-1, REL32_SIZE)
    if not reach.all():
        text[~reach] = INT3[0]
    return text, reach


def call(ip: Addresses, target: Addresses, bits: int = 64) -> tuple[Bytes, NDArray[np.bool_]]:
    """Encode `call target` at each `ip`; see `rel32`."""
    return rel32(CALL, ip, target, bits)


def jmp(ip: Addresses, target: Addresses, bits: int = 64) -> tuple[Bytes, NDArray[np.bool_]]:
    """Encode `jmp target` at each `ip`; see `rel32`."""
    return rel32(JMP, ip, target, bits)


def rel32_target(ip: int, text: bytes, bits: int = 64) -> int | None:
    """Return where the `call rel32` or `jmp rel32` at `ip` goes; None if `text` is neither."""
    if len(text) < REL32_SIZE or text[0] not in (CALL, JMP):
        return None
    distance = int.from_bytes(text[1:REL32_SIZE], "little", signed=True)
    return (ip + REL32_SIZE + distance) % (1 << bits)


def jmp8(ip: int, target: int) -> bytes:
    """Encode `jmp target` in two bytes; raises `ValueError` beyond -128..127 from its end."""
    distance = target - (ip + JMP8_SIZE)
    if not -128 <= distance <= 127:
        raise ValueError(f"jmp rel8 from {ip:#x} cannot reach {target:#x}")
    return bytes((JMP8, distance & 0xFF))


def jmp8_target(ip: int, text: bytes, bits: int = 64) -> int | None:
    """Return where the `jmp rel8` at `ip` goes; None for other text."""
    if len(text) < JMP8_SIZE or text[0] != JMP8:
        return None
    distance = int.from_bytes(text[1:JMP8_SIZE], "little", signed=True)
    return (ip + JMP8_SIZE + distance) % (1 << bits)


def nop_size(text: bytes, nops: Mapping[int, bytes]) -> int:
    """Return the size of the nop of `nops` that `text` begins with, 0 for other text."""
    return next((size for size, nop in nops.items() if text.startswith(nop)), 0)


def ends_in_call(before: bytes) -> bool:
    """Return whether `before` ends in a call: `e8 rel32`, or `ff /2` with any operand.

    Operands have the same sizes in 32 and in 64 bits.
    """
    if len(before) >= REL32_SIZE and before[-REL32_SIZE] == CALL:
        return True
    return any(
        len(before) >= size and before[-size] == 0xFF and _ff_call_size(before[-size:]) == size
        for size in (2, 3, 4, 6, 7)
    )


def _ff_call_size(text: bytes) -> int:
    """Return the size of the `ff /2` (call r/m64) at the start of `text`, 0 for another ff.

    ModRM is mod (2 bits), reg (3 bits, 2 for call), rm (3 bits); rm 4 asks for
    a SIB byte unless mod is 3, whose base 5 with mod 0 asks for a displacement.
    """
    modrm = text[1]
    mod, reg, rm = modrm >> 6, modrm >> 3 & 7, modrm & 7
    if reg != 2:
        return 0
    if mod == 3:
        return 2
    sib = 1 if rm == 4 else 0
    if sib and len(text) < 3:
        return 0
    base = text[2] & 7 if sib else rm
    displacement = {0: 4 if base == 5 else 0, 1: 1, 2: 4}[mod]
    return 2 + sib + displacement
