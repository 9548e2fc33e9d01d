"""Two builds of one caller: in one of them the compiler keeps a value in x9 during a call."""

from __future__ import annotations

import re

from dynftrace import arches
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

CALL = "call scratch_call 1 2 3 4 5 6"


def expected() -> int:
    """Return what scratch_call computes."""
    a, b, c, d, e, f = range(1, 7)
    total = a + b
    for value in (c, d, e, f, a ^ c, b ^ d, a ^ e, b ^ f):
        total = total * 3 + value
    return total


def test_a_saved_link_register_destroys_what_ipa_ra_leaves_in_x9() -> None:
    shell = Shell(Session.open(arches.load("arm64"), MachineSpec(cpus=1)))

    def result() -> int:
        found = re.search(r"= 0x([0-9a-f]+)", shell.execute(CALL).output)
        assert found is not None
        return int(found[1], 16)

    shell.execute("insmod scratch")
    assert result() == expected()
    shell.execute("rmmod scratch; insmod scratch-ipara")
    assert result() != expected()
    # Without `mov x9, x30` the same code is right.
    nop = "1f 20 03 d5"
    assert shell.execute(f"poke scratch_add {nop}").status == 0
    assert result() == expected()
