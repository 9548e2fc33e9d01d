"""A fault of a vCPU and the state it was in: the contents of an oops report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum


class Access(Enum):
    """Kinds of faults: accesses that failed, and others."""

    READ = "read access"
    WRITE = "write access"
    FETCH = "instruction fetch"
    ILLEGAL = "illegal instruction"
    INTERRUPT = "interrupt without a stack"
    OTHER = "exception"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault; `mapped` means that the memory exists but does not allow the access."""

    access: Access
    address: int | None = None
    """The address accessed; None if the engine does not report it."""
    mapped: bool = False
    detail: str = ""
    """A clause that names the oops, if `access` alone is too vague."""


@dataclass(frozen=True, slots=True)
class Crash:
    """A vCPU that cannot continue."""

    fault: Fault
    count: int
    """Number of this crash since the machine was started, from 1."""
    cpu: int
    pid: int
    registers: Mapping[str, int]
    """All of `Abi.pt_regs`, by name."""
    text: bytes
    """Code around pc as far as it can be read; empty if pc is not in memory."""
    text_address: int
    """Address of the first byte of `text`."""
    stack: bytes
    """Memory from the stack pointer up, at most 8 KB; empty if it cannot be read."""
    trace: tuple[int, ...]
    """Return addresses: the link register, if the ABI has one, then those on the stack."""
    symbol: Callable[[int], str]
    """Returns `name+0x5/0x80 [module]` for an address, or the bare number."""
    returns: Mapping[int, int] = field(default_factory=dict)
    """Address of each stack word that holds return_to_handler, and the real return address."""
