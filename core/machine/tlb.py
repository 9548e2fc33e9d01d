"""Address translation: there is none, and the engine's TLB should know it.

The engine runs with its virtual TLB, in which an address is its own
translation. Left to itself it enters a page with only the permission that was
asked for, so code that reads and writes the same page (any stack) replaces the
entry with each change of direction, some 130 ns each time. This hook enters
data pages for reading and writing at once, and code pages for reading and
execution, which keeps the engine's watch over stores to translated code.

Whether memory is there, and may be written, the engine still checks against
the regions that are mapped: a hook changes what a run costs, not what it does.
"""

from __future__ import annotations

from unicorn import Uc
from unicorn.unicorn_const import UC_HOOK_TLB_FILL

from .native import native_hook


def fill_whole_pages(uc: Uc) -> bool:
    """Hook `uc`, where the host lets us; false where it does not, and runs are slower."""
    hook = native_hook("tlb")
    if hook is None:
        return False
    hook.add(uc, UC_HOOK_TLB_FILL)
    return True
