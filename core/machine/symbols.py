"""Names of addresses, as far as the machine needs them; `Kallsyms` implements these protocols."""

from __future__ import annotations

from typing import Protocol

TRACER = "tracer"
"""The owner of the symbols of ftrace_caller and the tracer; the kernel may have the same names."""


class Symbol(Protocol):
    """A named address."""

    @property
    def name(self) -> str:
        """Name of the symbol."""
        ...

    @property
    def address(self) -> int:
        """Where it begins."""
        ...

    @property
    def function(self) -> bool:
        """Whether it names code."""
        ...


class Names(Protocol):
    """Symbols by name and by address."""

    def address(self, name: str, module: str | None = None) -> int | None:
        """Return the address of `name`, or None; `module` (or `TRACER`) selects its owner."""
        ...

    def lookup(self, address: int) -> Symbol | None:
        """Return the symbol that covers `address`, or None."""
        ...


class Symbols(Names, Protocol):
    """Symbols, and addresses as the kernel prints them."""

    def format(self, address: int) -> str:
        """Return `name+0x5/0x80 [module]`, or the bare number."""
        ...

    def name(self, address: int) -> str:
        """Return `name [module]`, or the bare number."""
        ...


class NoSymbols:
    """The symbols of a machine without a kernel: none."""

    def address(self, name: str, module: str | None = None) -> int | None:
        """Return None."""
        return None

    def lookup(self, address: int) -> Symbol | None:
        """Return None."""
        return None

    def format(self, address: int) -> str:
        """Return the number."""
        return f"0x{address:x}"

    def name(self, address: int) -> str:
        """Return the number."""
        return f"0x{address:x}"
