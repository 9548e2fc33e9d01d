"""Checks of the second tier: the addresses of call sites."""

from __future__ import annotations

import numpy as np

from .check import MCOUNT_RECORD, check
from .outcome import expect
from .subject import PortUnderTest

MANY = 100
"""Number of call sites that any build of the teaching kernel exceeds."""


@check(MCOUNT_RECORD, "records", "the kernel's call sites are found")
def found(subject: PortUnderTest) -> None:
    count = len(subject.ips)
    expect(count > MANY, f"only {count} call sites are found, of hundreds")


@check(MCOUNT_RECORD, "call_adjust", "each table entry gives an address in the text")
def adjusted(subject: PortUnderTest) -> None:
    port, ips = subject.port, subject.sites.ip
    before = ips.copy()
    port.call_adjust(ips)
    expect((ips == before).all(), "call_adjust changes the array that it is given")
    odd = ips[ips % np.uint64(port.facts.insn_align) != 0]
    expect(not len(odd), "no instruction begins there", int(odd[0]) if len(odd) else None)


@check(MCOUNT_RECORD, "functions", "each site is in its own function")
def functions(subject: PortUnderTest) -> None:
    symbols, ips = subject.kernel.symbols, subject.sites.ip
    rows = symbols.by_address
    at = np.searchsorted(symbols.address[rows], ips, "right") - 1
    outside = ~symbols.functions[rows[at]]
    ip = int(ips[int(np.argmax(outside))])
    expect(not outside.any(), "the site is outside of all functions", ip)
    _, first = np.unique(at, return_index=True)
    twice = np.setdiff1d(np.arange(len(ips)), first)
    second = int(ips[twice[0]]) if len(twice) else None
    expect(not len(twice), "its function has another site", second)


CHECKS = (found, adjusted, functions)
