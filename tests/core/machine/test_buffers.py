"""Buffers and strings for calls, and what the shell makes of them."""

from __future__ import annotations

import hashlib
import re

import pytest

from dynftrace import arches
from dynftrace.core.errors import UsageError
from dynftrace.core.machine.buffers import AREA, Buffers
from dynftrace.core.machine.memory import PAGE_SIZE, Memory
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.commands.buffers import c_string
from dynftrace.core.shell.shell import Shell

BASE = 0x10_0000


def test_buffers_have_unmapped_pages_between_them() -> None:
    memory = Memory("little", 8)
    buffers = Buffers(memory, BASE)
    first, second = buffers.alloc("first", 8), buffers.alloc("second", PAGE_SIZE + 1)
    assert memory.region_at(first + PAGE_SIZE) is None
    assert memory.region_at(second + PAGE_SIZE) and memory.region_at(second + 2 * PAGE_SIZE) is None
    buffers.free("first")
    assert buffers.names == ["second"] and buffers.alloc("third", 1) == first
    for name, size in (("second", 1), ("large", AREA), ("empty", 0)):
        with pytest.raises(UsageError):
            buffers.alloc(name, size)
    with pytest.raises(UsageError, match="mem alloc gone"):
        buffers.find("gone")


def test_strings_are_kept_once_and_written_anew() -> None:
    memory = Memory("little", 8)
    buffers = Buffers(memory, BASE)
    first, other = buffers.string(b"first"), buffers.string(b"")
    memory.write(first, b"damaged")
    assert buffers.string(b"first") == first != other
    assert memory.read(first, 6) == b"first\0" and memory.read(other, 1) == b"\0"
    with pytest.raises(UsageError, match="no room"):
        for number in range(100):
            buffers.string(b"x" * 4000 + bytes([number]))


@pytest.mark.parametrize("text", [r"a\n\x41\101\\\q", "plain", "\\", r"\x", "é"])
def test_escapes_are_those_of_c(text: str) -> None:
    expected = {r"a\n\x41\101\\\q": b"a\nAA\\q", "\\": b"\\", r"\x": b"x"}
    assert c_string(text) == expected.get(text, text.encode())


def test_calls_take_strings_and_buffers() -> None:
    shell = Shell(Session.open(arches.load("x86_64"), MachineSpec(cpus=1)))
    run = shell.execute
    assert run("mem alloc buf 16").status == 0
    said = run('call strscpy @buf+1 "hi\\n" 4').output
    assert re.search(r"^strscpy = 0x3 ", said) and "@buf = 00 68 69 0a 00" in said
    assert run('mem write buf "H"; mem show buf').status == 0
    assert '"Hhi\\n"' in run("mem").output
    digest = hashlib.sha256(b"any bytes").digest()[:16]
    run(f"mem write buf {digest.hex(' ')}")
    assert digest.hex(" ") in run("mem show buf").output
    wrong = ("mem alloc 1x 4", "mem write buf+16 00", "mem write buf zz", "mem x", "mem free none")
    for command in (*wrong, "call memcpy @none 1", "mem alloc buf 4", "mem show"):
        assert run(command).status in (1, 2), command
    run("mem free buf")
    assert run("mem").output == ""
    run("back")
    assert "@buf" in run("mem").output
