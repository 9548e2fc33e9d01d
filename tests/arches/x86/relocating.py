"""Batches of relocations for the tests of both ABIs."""

from __future__ import annotations

import numpy as np

from dynftrace.core.arch import Relocations


def batch(place: int, *rows: tuple[int, int, int, int], explicit: bool) -> Relocations:
    """Rows of (type, offset, S, A) of a section at `place`; A is 0 unless `explicit`."""
    kind, offset, symbol, addend = zip(*rows, strict=True)
    return Relocations(
        np.array(kind, np.uint32),
        np.array(offset, np.uint64),
        np.array(offset, np.uint64) + np.uint64(place),
        np.array(symbol, np.uint64),
        np.array(addend, np.int64),
        external=np.zeros(len(rows), np.bool_),
        stub=np.zeros(len(rows), np.bool_),
        explicit=explicit,
    )
