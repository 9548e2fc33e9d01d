"""Call sites of both ports: a `bl`, and the instruction that the ABI requires after it.

The forms are in the table of insn.py. Many sites are encoded at once. A site calls its target
directly if it reaches it, or else the target's stub in its module. The text of a call that
cannot be encoded is all zeros, which are not an instruction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.arch import Bytes, Calls, Effect, Sites
from . import insn


@dataclass(frozen=True, slots=True)
class Form:
    """The instructions that follow the `bl` of a site."""

    direct: tuple[int, ...]
    """Instructions after a call of the target itself."""
    stub: tuple[int, ...]
    """Instructions after a call of a stub, the same number."""
    prefer_stub: bool
    """Whether a module calls its stub of the target even if it could reach the target, because
    the stub does more than reach it."""
    branch_over: bool = False
    """Whether a call of a stub is disabled by a `b` over the words after it, which stay."""

    @property
    def nops(self) -> bytes:
        """The text of a disabled site that calls its target directly when enabled."""
        return insn.pack(insn.NOP, *(insn.NOP for _ in self.direct))

    @property
    def stub_nops(self) -> bytes:
        """The text of a disabled site that calls a stub when enabled."""
        if not self.branch_over:
            return self.nops
        size = insn.WORD * (1 + len(self.stub))
        return insn.pack(insn.b(size), *self.stub)


SLOT = Form(direct=(), stub=(), prefer_stub=False)
"""The slot of ftrace_caller: a `bl`, which reaches all tracers."""


def calls(form: Form, sites: Sites, target: int) -> Calls:
    """Encode a call of `target` at each of `sites`."""
    stubs = sites.stub(target)
    text, reaches = insn.bl(sites.ip, np.full(len(sites), target, np.uint64))
    stub_text, stub_reaches = insn.bl(sites.ip, stubs)
    by_stub = (stubs != 0) & (form.prefer_stub | ~reaches)
    text = np.where(by_stub[:, None], stub_text, text)
    after = np.where(by_stub[:, None], _bytes(form.stub), _bytes(form.direct))
    reachable = np.where(by_stub, stub_reaches, reaches)
    text = np.concatenate([text, after], axis=1)
    text[~reachable] = 0
    nops = np.where(
        by_stub[:, None],
        np.frombuffer(form.stub_nops, np.uint8),
        np.frombuffer(form.nops, np.uint8),
    )
    return Calls(text, nops, reachable, np.where(by_stub & reachable, stubs, np.uint64(0)))


def call_target(bits: int, ip: int, text: bytes) -> int | None:
    """Return the target of a direct branch; None for other instructions."""
    if len(text) < insn.WORD:
        return None
    target = insn.branch_target(ip, insn.word_at(text))
    return None if target is None else target % (1 << bits)


def emulate(form: Form, bits: int, ip: int, text: bytes) -> Effect:
    """Return the effect of the site `text`, nops or a `bl`. Raises `ValueError` for other text.

    The instruction after a `bl` runs once the call has returned.
    """
    if text in (form.nops, form.stub_nops):
        return Effect({"nip": ip + len(text)})
    target = call_target(bits, ip, text)
    after = (insn.pack(*words) for words in (form.direct, form.stub))
    if target is None or not insn.is_bl(insn.word_at(text)) or text[insn.WORD :] not in after:
        raise ValueError(f"no call site has the text {text.hex(' ')}")
    return Effect({"nip": target, "lr": ip + insn.WORD})


def explain(ip: int, expected: bytes, found: bytes) -> str:
    """Return why a site is refused, as the kernel's own message if it has one."""
    if expected == found or not any(expected):
        far = "out of 24-bit reach (+-32 MB), and the record has no module with a stub of it"
        return f"No ftrace trampoline: {far}"
    if len(found) != len(expected):
        return ""
    want, have = _words(expected), _words(found)
    if not insn.is_bl(want[0]):
        if len(have) == 1:
            return f"Expected NOP but have {have[0]:08x}"
        return f"Unexpected call sequence at {ip:x}: {' '.join(f'{word:08x}' for word in have)}"
    if not insn.is_bl(have[0]):
        return f"Not expected bl: opcode is {have[0]:08x}"
    row = next(row for row, pair in enumerate(zip(want, have, strict=True)) if len(set(pair)) > 1)
    differ = f"Expected {want[row]:08x} found {have[row]:08x}"
    if row and want[row] == insn.LD_R2:
        return f"no restore of r2 (ld r2,40(r1)) after the bl: {differ}"
    return f"no nop after the bl: {differ}" if row else differ


def _words(text: bytes) -> list[int]:
    return [insn.word_at(text, offset) for offset in range(0, len(text), insn.WORD)]


def _bytes(words: tuple[int, ...]) -> Bytes:
    return np.frombuffer(insn.pack(*words), np.uint8)
