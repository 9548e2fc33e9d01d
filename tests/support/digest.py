"""Digests of a machine's memory, to compare two moments of it or two machines."""

from __future__ import annotations

import hashlib

import numpy as np

from dynftrace.core.machine.memory import PAGE_SIZE, Memory


def of_memory(memory: Memory) -> str:
    """Return a digest of all regions: their names, places and bytes.

    Pages of zeros, which are most of them, count by their absence.
    """
    seen = hashlib.sha256()
    for region in memory.regions:
        seen.update(f"{region.name} {region.address:x} {region.size:x}".encode())
        pages = region.bytes.reshape(-1, PAGE_SIZE)
        used = np.flatnonzero(pages.view(np.uint64).any(axis=1))
        seen.update(used.tobytes() + pages[used].tobytes())
    return seen.hexdigest()
