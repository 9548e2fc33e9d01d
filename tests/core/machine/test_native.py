"""Hooks in machine code: their numbers do not depend on what was assembled before."""

from __future__ import annotations

import re

import keystone
import pytest
from capstone import CS_ARCH_X86, CS_MODE_64, Cs

from dynftrace.core.machine.native import assemble_hook

HOOKS = [(host, name) for host in ("x86_64", "aarch64") for name in ("block", "tlb")]


@pytest.mark.parametrize(("host", "name"), HOOKS)
def test_every_number_passed_to_keystone_has_a_base(
    host: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []

    class Recorder(keystone.Ks):
        def asm(self, source: str, *rest: object) -> object:
            given.append(source)
            return super().asm(source, *rest)

    monkeypatch.setattr(keystone, "Ks", Recorder)
    assert assemble_hook(host, name)
    assert given
    assert not re.findall(r"(?<![\w.])[1-9][0-9]+(?!\w)", given[0])


def test_the_x86_hooks_have_the_right_offsets_and_constants() -> None:
    engine = Cs(CS_ARCH_X86, CS_MODE_64)

    def text(name: str) -> str:
        code = assemble_hook("x86_64", name)
        assert code is not None
        return "\n".join(f"{insn.mnemonic} {insn.op_str}" for insn in engine.disasm(code, 0))

    assert "cmp dword ptr [rcx + 0x2000], 0" in text("block")
    assert "mov qword ptr [rcx + 0x1000], rax" in text("block")
    assert "jmp qword ptr [rcx + 0x10]" in text("block")
    assert "cmp edx, 0x12" in text("tlb")
