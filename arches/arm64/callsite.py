"""Call sites of both ports: a branch, and the instructions before it.

The forms are in the table of insn.py. Many sites are encoded at once. A site calls its target
directly if it reaches it, or else the target's stub in its module. The text of a call that
cannot be encoded is all zeros, which are not an instruction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...core.arch import Bytes, Calls, Edit, Effect, Sites
from . import insn


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a site, without the target of its branch."""

    before: tuple[int, ...]
    """Instructions before the branch, once ftrace has changed the site for the first time."""
    compiled: tuple[int, ...]
    """The whole site as compiled; empty if that is a call of mcount."""

    @property
    def branch_offset(self) -> int:
        """Offset of the branch from rec.ip, in bytes (`REC_IP_BRANCH_OFFSET`)."""
        return insn.WORD * len(self.before)

    @property
    def nops(self) -> bytes:
        """The text of a disabled site."""
        return insn.pack(*self.before, insn.NOP)


SLOT = Form(before=(), compiled=())
"""The slot of ftrace_caller: a `bl`, which reaches all tracers."""


def calls(form: Form, sites: Sites, target: int) -> Calls:
    """Encode a call of `target` at each of `sites`."""
    branch = sites.ip + np.uint64(form.branch_offset)
    stubs = sites.stub(target)
    text, reaches = insn.bl(branch, np.full(len(sites), target, np.uint64))
    stub_text, stub_reaches = insn.bl(branch, stubs)
    by_stub = (stubs != 0) & ~reaches & stub_reaches
    reachable = reaches | by_stub
    text = np.where(by_stub[:, None], stub_text, text)
    whole = np.concatenate([_rows(insn.pack(*form.before), len(sites)), text], axis=1)
    whole[~reachable] = 0
    via = np.where(by_stub, stubs, np.uint64(0))
    return Calls(whole, _rows(form.nops, len(sites)), reachable, via)


def init_nop(form: Form, sites: Sites, mcount: int) -> Edit:
    """Return the first change of each site, from the text of the compiler or module loader."""
    if not form.compiled:
        return calls(form, sites, mcount).make_nop(sites)
    count = len(sites)
    compiled = _rows(insn.pack(*form.compiled), count)
    return Edit(sites.ip, compiled, _rows(form.nops, count), np.ones(count, np.bool_))


def call_target(ip: int, text: bytes) -> int | None:
    """Return where the site `text` at `ip` branches to, after the words before the branch."""
    for row, word in enumerate(insn.words(text)):
        target = insn.branch_target(ip + insn.WORD * row, word)
        if target is not None or word not in (insn.NOP, insn.SAVE_LR):
            return target
    return None


def emulate(form: Form, registers: Mapping[str, int], ip: int, text: bytes) -> Effect:
    """Return what the site `text`, disabled or enabled, does. Raises `ValueError` for others."""
    before, branch = text[: form.branch_offset], insn.words(text[form.branch_offset :])
    if before != insn.pack(*form.before) or len(branch) != 1:
        raise ValueError(f"no call site has the text {text.hex(' ')}")
    effect = {"pc": ip + len(text)}
    if insn.SAVE_LR in form.before:
        effect["x9"] = registers["x30"]
    if insn.is_bl(branch[0]):
        target = call_target(ip, text)
        assert target is not None
        effect |= {"pc": target, "x30": ip + len(text)}
    elif branch[0] != insn.NOP:
        raise ValueError(f"no call site has the text {text.hex(' ')}")
    return Effect(effect)


def explain(form: Form, ip: int, expected: bytes, found: bytes) -> str:
    """Return why a site is refused; see `Port.explain`.

    The kernel has a message for a missing stub only: any other difference is just EINVAL.
    """
    if expected == found or not any(expected):
        return "out of 26-bit reach (+-128 MB), and no module PLT for it"
    if len(found) != len(expected):
        return ""
    want, have = insn.words(expected), insn.words(found)
    row = next(row for row, pair in enumerate(zip(want, have, strict=True)) if len(set(pair)) > 1)
    differ = f"expected {want[row]:08x}, found {have[row]:08x}"
    if insn.WORD * row < form.branch_offset:
        if want[row] != insn.SAVE_LR:
            return f"not what the compiler left at {ip + insn.WORD * row:x}: {differ}"
        return f"x30 is not saved before the branch: {differ}"
    return f"not the branch or nop at {ip + insn.WORD * row:x}: {differ}"


def _rows(text: bytes, count: int) -> Bytes:
    """Return the same text for `count` sites."""
    return np.tile(np.frombuffer(text, np.uint8), (count, 1))
