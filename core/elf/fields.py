"""The integer fields of a section that relocations change, many at once.

A field is at any byte offset, aligned or not, and has the guest's byte order. Offsets come
from files, so they are checked before anything is written.
"""

from __future__ import annotations

import errno

import numpy as np
from numpy.typing import NDArray

from ..errors import ModuleError


def outside(
    module: str, kind: str, text: NDArray[np.uint8], offset: NDArray[np.uint64], width: int
) -> None:
    """Raise `ModuleError` (ENOEXEC) if a field of `width` bytes at an `offset` leaves `text`."""
    bad = offset > np.uint64(max(len(text) - width, 0))
    if len(text) < width:
        bad[:] = True
    if bad.any():
        first = int(offset[int(np.argmax(bad))])
        raise ModuleError(
            module,
            errno.ENOEXEC,
            f"module {module}: relocation {kind} at offset {first:#x} is outside its section",
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
