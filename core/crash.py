"""What a vCPU did wrong, and the state it was in: what an oops report is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum


class Access(Enum):
    """What went wrong: an access that failed, or something else altogether."""

    READ = "read access"
    WRITE = "write access"
    FETCH = "instruction fetch"
    ILLEGAL = "illegal instruction"
    INTERRUPT = "interrupt without a stack"
    OTHER = "exception"


@dataclass(frozen=True, slots=True)
class Fault:
    """What went wrong; `mapped` says that memory is there but may not be used so."""

    access: Access
    address: int | None = None
    """None where the engine does not tell."""
    mapped: bool = False
    detail: str = ""
    """A clause of its own where the access does not say all; it then names the oops."""


@dataclass(frozen=True, slots=True)
class Crash:
    """A vCPU that cannot go on."""

    fault: Fault
    count: int
    """Which it is since the machine was started, from 1."""
    cpu: int
    pid: int
    registers: Mapping[str, int]
    """All of `Abi.pt_regs`, by name."""
    text: bytes
    """Code around pc as far as it can be read; empty where pc is not in memory."""
    text_address: int
    """Where `text` begins."""
    stack: bytes
    """What lies from the stack pointer up, at most 8 KB; empty where it is not in memory."""
    trace: tuple[int, ...]
    """Return addresses: the link register where there is one, then those found on the stack."""
    symbol: Callable[[int], str]
    """`name+0x5/0x80 [module]` for an address, or the bare number."""
