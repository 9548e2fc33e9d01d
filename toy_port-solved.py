"""A toy port: arm64-mcount, except for make_nop, which is yours to write.

`port check toy_port-solved.py` executes this file and runs the checks of the porting guide.
"""

from dataclasses import dataclass, replace

import numpy as np

from dynftrace.arches.arm64.mcount.port import FACTS, McountPort
from dynftrace.core.arch import Edit, Sites


@dataclass(frozen=True, slots=True)
class ToyPort(McountPort):
    facts = replace(FACTS, name="toy")

    def make_nop(self, sites: Sites, target: int) -> Edit:
        """Return the edit from a call of `target` to a nop, for all sites at once."""
        # An edit that leaves the calls as they are: `expected` and `replacement` are equal.
        edit = self.modify_call(sites, target, target)
        # One row of four bytes for each site.
        nops = np.zeros_like(edit.replacement)
        # Write the bytes of a nop into every row. In the manual a nop is the word d503201f.
        nops[:] = [0x1F, 0x20, 0x03, 0xD5]  # the lowest byte first
        return replace(edit, replacement=nops)


def port() -> ToyPort:
    return ToyPort()
