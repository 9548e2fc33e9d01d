"""Call sites of all x86 ports: one `call rel32`, and the nop of the same size.

The forms are in the table of insn.py. Many sites are encoded at once. The text of a call that
cannot be encoded is all `int3`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ...core.arch import Bytes, Calls, Edit, Effect, Sites
from ...core.facts import Abi
from . import insn


def nops_of(bits: int) -> Mapping[int, bytes]:
    """Return the nops for addresses of `bits` bits, by their sizes in bytes."""
    return insn.NOPS64 if bits == 64 else insn.NOPS32


def calls(bits: int, sites: Sites, target: int) -> Calls:
    """Encode a call of `target` at each of `sites`."""
    return _from_nop(bits, *insn.call(sites.ip, np.full(len(sites), target, np.uint64), bits))


def jumps(bits: int, sites: Sites, target: int) -> Calls:
    """Encode a jump to `target` at each of `sites`."""
    return _from_nop(bits, *insn.jmp(sites.ip, np.full(len(sites), target, np.uint64), bits))


def _from_nop(bits: int, text: Bytes, reachable: NDArray[np.bool_]) -> Calls:
    nop = np.frombuffer(nops_of(bits)[insn.REL32_SIZE], np.uint8)
    return Calls(text, np.tile(nop, (len(text), 1)), reachable)


def init_nop(sites: Sites, mcount: Calls) -> Edit:
    """Return the first change of each site: from a call of mcount, or from a nop."""
    edit = mcount.make_nop(sites)
    nops = np.frombuffer(b"".join(insn.COMPILED_NOPS), np.uint8).reshape(-1, insn.REL32_SIZE)
    already = (sites.compiled[:, None] == nops).all(axis=2).any(axis=1)
    expected = edit.expected.copy()
    expected[already] = sites.compiled[already]
    return Edit(sites.ip, expected, edit.replacement, edit.reachable | already)


def call_target(bits: int, ip: int, text: bytes) -> int | None:
    """Return the target of a direct call or jump; None for other instructions."""
    target = insn.rel32_target(ip, text, bits)
    return target if target is not None else insn.jmp8_target(ip, text, bits)


def emulate(
    bits: int, abi: Abi, registers: Mapping[str, int], ip: int, text: bytes, target: int | None
) -> Effect:
    """Return the effect of the nop, call or jump `text`; a call or jump goes to `target`.

    Raises `ValueError` for any other text.
    """
    if target is None:
        size = insn.nop_size(text, nops_of(bits))
        if not size:
            raise ValueError(f"no call site has the text {text.hex(' ')}")
        return Effect({abi.pc.name: ip + size})
    if text[0] != insn.CALL:
        return Effect({abi.pc.name: target})
    word = bits // 8
    top = registers[abi.sp.name] - word
    back = (ip + insn.REL32_SIZE).to_bytes(word, "little")
    return Effect({abi.pc.name: target, abi.sp.name: top}, ((top, back),))


def explain(expected: bytes, found: bytes) -> str:
    """Return why a site is refused; the kernel's report does not say why."""
    return "out of reach of a call rel32 (+-2 GB)" if expected == found else ""
