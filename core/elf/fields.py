"""Integer fields of a section's bytes, many at once: what relocations write.

A field lies at a byte offset, unaligned, in the guest's byte order. Offsets
come from files and are checked before anything is written.
"""

from __future__ import annotations

import errno

import numpy as np
from numpy.typing import NDArray

from ..errors import ModuleError


def outside(
    module: str, kind: str, text: NDArray[np.uint8], offset: NDArray[np.uint64], width: int
) -> None:
    """Raise `ModuleError` (ENOEXEC) if a field of `width` bytes leaves `text`."""
    bad = offset > np.uint64(max(len(text) - width, 0))
    if len(text) < width:
        bad[:] = True
    if bad.any():
        first = int(offset[int(np.argmax(bad))])
        raise ModuleError(
            module,
            errno.ENOEXEC,
            f"module {module}: relocation {kind} at offset {first:#x} lies outside its section",
        )


def store(
    text: NDArray[np.uint8],
    offset: NDArray[np.uint64],
    values: NDArray[np.int64] | NDArray[np.uint64],
    width: int,
    byteorder: str,
) -> None:
    """Write the low `width` bytes of each value into `text` at each of `offset`."""
    order = "<" if byteorder == "little" else ">"
    fields = np.ascontiguousarray(values.astype(f"{order}u{width}"))
    columns = offset.astype(np.intp)[:, None] + np.arange(width, dtype=np.intp)
    text[columns] = fields.view(np.uint8).reshape(-1, width)
