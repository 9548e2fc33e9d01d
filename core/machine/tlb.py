"""TLB entries with all permissions of their page, so that each page is entered only once.

The engine runs with its virtual TLB, in which an address is its own translation. By default it
enters a page with only the permission of the current access. Code that reads and writes the
same page (any stack) then replaces the entry at each change between the two, some 130 ns each
time. This hook enters data pages for reading and writing at once, and code pages for reading
and execution, which keeps the engine's watch over stores to translated code.

The engine still checks against the mapped regions whether memory exists and is writable: the
hook changes what a run costs, not what it does.
"""

from __future__ import annotations

from unicorn import Uc
from unicorn.unicorn_const import UC_HOOK_TLB_FILL

from .native import native_hook


def fill_whole_pages(uc: Uc) -> bool:
    """Hook `uc`. Return False if the host does not allow it; runs are then slower."""
    hook = native_hook("tlb")
    if hook is None:
        return False
    hook.add(uc, UC_HOOK_TLB_FILL)
    return True
