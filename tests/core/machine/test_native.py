"""Hooks in machine code: what GNU as made of them is what Keystone makes."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest
from capstone import CS_ARCH_X86, CS_MODE_64, Cs

from dynftrace.core import machine
from dynftrace.core.asm.keystone_child import assemble_once
from dynftrace.core.machine.native import hook_code

from ...support.keystone import needs_keystone

HOSTS = {
    "x86_64": ("KS_ARCH_X86", ("KS_MODE_64",)),
    "aarch64": ("KS_ARCH_ARM64", ("KS_MODE_LITTLE_ENDIAN",)),
}
NAMES = (("block", 0), ("block", 1), ("tlb", 0), ("slots", 0))
HOOKS = [(host, *hook) for host in HOSTS for hook in NAMES]


@needs_keystone
@pytest.mark.parametrize(("host", "name", "swap"), HOOKS)
def test_the_hooks_are_built_from_their_sources(host: str, name: str, swap: bool) -> None:
    source = (files(machine) / "hosts" / host / f"{name}.S").read_text()
    replaced = re.findall("// swap: (.*)", source)[0] if swap else ""
    text = re.sub("//.*", "", source).replace("{swap}", replaced)
    # Keystone reads these in base 10 or 16, depending on uninitialized memory.
    assert not re.findall(r"(?<![\w.$%])[1-9][0-9]+(?!\w)", text), "use hexadecimal"
    arch, mode = HOSTS[host]
    assert hook_code(host, name, swap) == assemble_once(arch, mode, text, 0, False).code


def test_the_x86_hooks_have_the_right_offsets_and_constants() -> None:
    engine = Cs(CS_ARCH_X86, CS_MODE_64)

    def text(name: str) -> str:
        code = hook_code("x86_64", name)
        assert code is not None
        return "\n".join(f"{insn.mnemonic} {insn.op_str}" for insn in engine.disasm(code, 0))

    assert "cmp dword ptr [rcx + 0x2000], 0" in text("block")
    assert "mov qword ptr [rcx + 0x1000], rax" in text("block")
    assert "jmp qword ptr [rcx + 0x10]" in text("block")
    assert "cmp edx, 0x12" in text("tlb")
    assert "cmp edx, 0x12" in text("slots")
