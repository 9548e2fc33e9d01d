"""Recognises the architecture of a kernel or module from its first bytes."""

from __future__ import annotations

import numpy as np

from ..facts import FileFacts
from . import structs as elf


def is_for(head: bytes, facts: FileFacts) -> bool:
    """Return whether the file that begins with `head` is for the architecture of `facts`."""
    flat = facts.flat
    if flat is not None and head.startswith(flat.magic, flat.offset):
        return True
    layout = elf.layouts(facts.pointer_size, facts.byteorder).header
    ident = elf.MAGIC + bytes((elf.CLASSES[facts.pointer_size], elf.ORDERS[facts.byteorder]))
    end = elf.IDENT_SIZE + layout.itemsize
    if not head.startswith(ident) or len(head) < end:
        return False
    header = np.frombuffer(head[elf.IDENT_SIZE : end], layout)[0]
    if int(header["machine"]) != facts.elf_machine:
        return False
    flags = facts.elf_flags
    return flags is None or int(header["flags"]) & flags.mask in flags.allowed
