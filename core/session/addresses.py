"""Addresses as a user types them: a number, a symbol, or a symbol and an offset.

A symbol may have an owner, as in `ftrace_caller [tracer]`; see `Kallsyms`.
"""

from __future__ import annotations

import re

from ..errors import UsageError
from ..facts import Facts
from ..kernel.kallsyms import Kallsyms

_ADDRESS = re.compile(r"(?P<symbol>[^+\[]+?)(?:\+(?P<offset>\w+))?(?:\s*\[(?P<owner>[^]]+)\])?")


class AddressReader:
    """Resolves texts to addresses, by the symbols of one machine."""

    def __init__(self, facts: Facts, kallsyms: Kallsyms) -> None:
        self._facts = facts
        self._kallsyms = kallsyms

    def code(self, name: str, owner: str | None = None) -> int | None:
        """Return the address of the symbol `name`: of a function its code, not its descriptor.

        `owner` is a module or `TRACER`.
        """
        prefix = self._facts.abi.text_prefix
        code = self._kallsyms.address(prefix + name, owner) if prefix else None
        return self._kallsyms.address(name, owner) if code is None else code

    def of(self, text: str) -> int:
        """Return the address that `text` means. Raises `UsageError`."""
        match = _ADDRESS.fullmatch(text.strip())
        if match is None:
            raise UsageError(
                f"invalid address '{text}': write a number or 'SYMBOL[+OFFSET] [MODULE]'"
            )
        name = match["symbol"]
        try:
            offset = int(match["offset"] or "0", 0)
        except ValueError:
            raise UsageError(f"invalid offset '{match['offset']}': write a number") from None
        owner = match["owner"]
        address = self.code(name, owner)
        if address is None and owner is not None:
            raise UsageError(f"[{owner}] has no symbol '{name}'")
        if address is None:
            try:
                address = int(name, 0 if name[:2].lower() == "0x" else 16)
            except ValueError:
                raise UsageError(f"unknown symbol '{name}'") from None
        if not 0 <= address + offset < 1 << 8 * self._facts.pointer_size:
            raise UsageError(f"'{text}' is outside the address space")
        return address + offset
