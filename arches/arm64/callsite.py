"""Call sites of both ports: a branch, which is at rec.ip.

The forms are in the table of insn.py. Many sites are encoded at once. Of a site that begins
with `mov x9, x30`, only the first change (`init_nop`) concerns that word, as in the kernel. A
site calls its target directly if it reaches it, or else the target's stub in its module. The
text of a call that cannot be encoded is all zeros, which are not an instruction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.arch import Bytes, Calls, Edit, Effect, Sites
from . import insn


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a site, without the target of its branch."""

    before: tuple[int, ...]
    """Instructions before rec.ip, which ftrace writes once, before the code runs."""
    compiled: tuple[int, ...]
    """The whole site as compiled; empty if that is a call of mcount."""

    @property
    def lead(self) -> int:
        """Bytes of the site before rec.ip."""
        return insn.WORD * len(self.before)


def calls(sites: Sites, target: int) -> Calls:
    """Encode a call of `target` at each of `sites`."""
    stubs = sites.stub(target)
    text, reaches = insn.bl(sites.ip, np.full(len(sites), target, np.uint64))
    stub_text, stub_reaches = insn.bl(sites.ip, stubs)
    by_stub = (stubs != 0) & ~reaches & stub_reaches
    text = np.where(by_stub[:, None], stub_text, text)
    via = np.where(by_stub, stubs, np.uint64(0))
    return Calls(text, _rows(insn.pack(insn.NOP), len(sites)), reaches | by_stub, via)


def jumps(sites: Sites, target: int) -> Calls:
    """Encode a branch to `target`, without link, at each of `sites`."""
    text, reaches = insn.branch(sites.ip, np.full(len(sites), target, np.uint64), link=False)
    return Calls(text, _rows(insn.pack(insn.NOP), len(sites)), reaches)


def init_nop(form: Form, sites: Sites, mcount: int) -> Edit:
    """Return the first change of each site, from the text of the compiler or module loader."""
    if not form.compiled:
        return calls(sites, mcount).make_nop(sites)
    count = len(sites)
    compiled = _rows(insn.pack(*form.compiled), count)
    left = _rows(insn.pack(*form.before, insn.NOP), count)
    start = sites.ip - np.uint64(form.lead)
    return Edit(start, compiled, left, np.ones(count, np.bool_), ip=sites.ip)


def call_target(ip: int, text: bytes) -> int | None:
    """Return where the branch `text` at `ip` goes."""
    return insn.branch_target(ip, insn.word_at(text)) if len(text) >= insn.WORD else None


def emulate(ip: int, text: bytes) -> Effect:
    """Return the effect of `text`, a nop or a branch. Raises `ValueError` for other text."""
    words = insn.words(text) if len(text) == insn.WORD else []
    if words == [insn.NOP]:
        return Effect({"pc": ip + insn.WORD})
    if words and insn.is_bl(words[0]):
        target = insn.branch_target(ip, words[0])
        assert target is not None
        return Effect({"pc": target, "x30": ip + insn.WORD})
    raise ValueError(f"no call site has the text {text.hex(' ')}")


def explain(ip: int, expected: bytes, found: bytes) -> str:
    """Return why a site is refused; see `Port.explain`.

    The kernel has a message only for a missing stub: any other difference is just EINVAL.
    """
    if expected == found or not any(expected):
        return "out of 26-bit reach (+-128 MB), and no module PLT for it"
    if len(found) != len(expected):
        return ""
    want, have = insn.words(expected), insn.words(found)
    row = next(row for row, pair in enumerate(zip(want, have, strict=True)) if len(set(pair)) > 1)
    what = "not the branch or nop" if len(want) == 1 else "not what the compiler left"
    return f"{what} at {ip + insn.WORD * row:x}: expected {want[row]:08x}, found {have[row]:08x}"


def _rows(text: bytes, count: int) -> Bytes:
    """Return the same text for `count` sites."""
    return np.tile(np.frombuffer(text, np.uint8), (count, 1))
