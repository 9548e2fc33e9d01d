"""Small guests in assembly, each exercising one feature of the machine."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from dynftrace.arches import load
from dynftrace.core import abi
from dynftrace.core.asm.keystone_child import assemble_once
from dynftrace.core.machine.machine import Machine
from dynftrace.core.machine.services import Services

from ...support.keystone import INSTALLED, REASON

PORT = load("x86_64")
TEXT = 0xFFFF_FFFF_8100_0000
SIZE = 0x40000
STACK = TEXT + 0x20000
"""Top of CPU 0's stack; the top for CPU n is 0x1000 * n higher."""
DATA = TEXT + 0x30000
CLOCK = PORT.facts.map.local
LOCAL = CLOCK + abi.LOCAL_PAGE_SIZE
FIELD = {name: offset for name, (_, offset) in abi.cpu_local("little").fields.items()}


DECIMAL = re.compile(r"(?<![\w.])[1-9][0-9]+(?!\w)")


def assemble(source: str, address: int = TEXT) -> bytes:
    """Return the instructions of `source` for `address`; skip the test without Keystone."""
    if not INSTALLED:
        pytest.skip(REASON)
    # Keystone guesses the base of numbers without a prefix.
    text = DECIMAL.sub(lambda match: hex(int(match[0])), source)
    return assemble_once("KS_ARCH_X86", ("KS_MODE_64",), text, address, False).code


@dataclass(frozen=True, slots=True)
class Named:
    name: str
    address: int
    function: bool = True


class Names:
    """Symbols of a small guest; each extends to the next."""

    def __init__(self) -> None:
        self.by_name: dict[str, int] = {}

    def address(self, name: str, module: str | None = None) -> int | None:
        return self.by_name.get(name)

    def lookup(self, address: int) -> Named | None:
        below = [(at, name) for name, at in self.by_name.items() if at <= address < TEXT + SIZE]
        return Named(max(below)[1], max(below)[0]) if below else None

    def format(self, address: int) -> str:
        found = self.lookup(address)
        return f"{found.name}+0x{address - found.address:x}" if found else f"0x{address:x}"

    def name(self, address: int) -> str:
        found = self.lookup(address)
        return found.name if found else f"0x{address:x}"


class Guest:
    """A machine with one region of RAM; functions are put at fixed offsets in it."""

    def __init__(
        self, cpus: int = 1, services: Services | None = None, native_clock: bool | None = None
    ) -> None:
        self.names = Names()
        self.machine = Machine(
            PORT, cpus, symbols=self.names, services=services, native_clock=native_clock
        )
        self.machine.memory.map(TEXT, SIZE, "kernel")

    def put(self, name: str, offset: int, source: str) -> int:
        """Assemble a function at an offset and return its address."""
        address = TEXT + offset
        self.machine.memory.write(address, assemble(source, address))
        self.names.by_name[name] = address
        return address

    def boot(self, source: str, offset: int = 0) -> None:
        """Start CPU 0 in `source`, with its own stack and r15 pointing to its CPU-local data."""
        self.machine.start(self.put("start", offset, f"mov r15, {LOCAL}; {source}"), STACK)

    def word(self, address: int) -> int:
        return self.machine.memory.read_int(address)

    def register(self, name: str, cpu: int = 0) -> int:
        return self.machine.registers(cpu)[name]


def hypercall(number: int, *arguments: str | int, label: str = "spin") -> str:
    """Return the assembly of a hypercall; arguments are registers or numbers. Clobbers rax."""
    lines = []
    for at, argument in enumerate(arguments):
        lines.append(f"mov rax, {argument}")
        lines.append(f"mov [r15 + {FIELD['call_arg'] + 8 * at}], rax")
    lines.append(f"mov dword ptr [r15 + {FIELD['call']}], {int(number)}")
    lines.append(f"mov dword ptr [r15 + {FIELD['stop_request']}], 1")
    lines.append(f"{label}: cmp dword ptr [r15 + {FIELD['call']}], 0; jne {label}")
    return "; ".join(lines)


def irqs(on: bool) -> str:
    return f"mov dword ptr [r15 + {FIELD['irqs_disabled']}], {int(not on)}"
