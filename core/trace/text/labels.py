"""Names that the rows of a trace show, looked up once for each address of the table."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..buffer.events import EventTable
from .columntexts import printable
from .textcontext import TextContext


class Labels:
    """The names of a table's addresses, and the texts of its markers.

    Source: seq_print_ip_sym() in kernel/trace/trace_output.c, 6.1.
    """

    def __init__(self, table: EventTable, context: TextContext) -> None:
        addresses = table.addresses
        self._addresses = addresses
        self._context = context
        self.names = self.symbols(addresses)
        """Text of each address as a function."""
        self.callers = [
            f" <-{name}" if address and context.options.print_parent else ""
            for name, address in zip(self.names, addresses.tolist(), strict=True)
        ]
        """Text of each address as a caller."""
        self.texts = [printable(text) for text in table.details.texts]
        """Text of each marker."""

    def symbols(self, addresses: NDArray[np.uint64]) -> list[str]:
        """Return the text of each address, by the options sym-offset and sym-addr."""
        context, options = self._context, self._context.options
        if options.sym_offset:
            names = [context.symbols.format(address) for address in addresses.tolist()]
        else:
            names = context.symbols.names_of(addresses)
        if options.sym_addr:
            digits = 2 * context.pointer_size
            names = [
                f"{name} <{address:0{digits}x}>"
                for name, address in zip(names, addresses.tolist(), strict=True)
            ]
        return [
            name if address else "0"
            for name, address in zip(names, addresses.tolist(), strict=True)
        ]

    @cached_property
    def functions(self) -> list[str]:
        """The symbol that contains each address, without offset; "" for address 0."""
        names, options = self.names, self._context.options
        if options.sym_offset or options.sym_addr:
            names = self._context.symbols.names_of(self._addresses)
        addresses = self._addresses.tolist()
        return [name if address else "" for name, address in zip(names, addresses, strict=True)]
