"""Guest memory for the arguments of calls: named buffers, and C strings.

A buffer is a region of its own with an unmapped page after it, so that a function that writes
far past the end faults. Strings are kept in one area, each once: a call puts its strings there
anew, so it does not matter what an earlier call did to them.
"""

from __future__ import annotations

from ..errors import UsageError
from ..memento import Restore, attributes
from .memory import PAGE_SIZE, Memory

OFFSET = 4 << 20
"""Start of the area in bytes after `AddressMap.host_stack`, past all stacks."""

AREA = 4 << 20
"""Size of the area in bytes."""

STRINGS = 64 << 10
"""Bytes for strings, at the start of the area."""

_NAME = "strings of calls"


class Buffers:
    """The buffers and strings of one machine."""

    def __init__(self, memory: Memory, host_stack: int) -> None:
        """`host_stack` is the start of the machine's own stack."""
        self._memory = memory
        self._base = host_stack + OFFSET
        self._sizes: dict[str, tuple[int, int]] = {}
        self._strings: dict[bytes, int] = {}

    def save(self) -> Restore:
        """Return a function that restores the list of buffers; call it after restoring memory."""
        return attributes(self, "_sizes", "_strings")

    @property
    def names(self) -> list[str]:
        """Names of all buffers, by address."""
        return sorted(self._sizes, key=lambda name: self._sizes[name])

    def find(self, name: str) -> tuple[int, int]:
        """Return address and size in bytes of buffer `name`. Raises `UsageError`."""
        if name not in self._sizes:
            raise UsageError(f"no buffer '{name}': make it with `mem alloc {name} SIZE`")
        return self._sizes[name]

    def alloc(self, name: str, size: int) -> int:
        """Add a buffer of `size` zero bytes and return its address.

        Raises `UsageError` for a name in use, and if the area is full.
        """
        if name in self._sizes:
            raise UsageError(f"buffer '{name}' already exists: free it first")
        room = -(-size // PAGE_SIZE) * PAGE_SIZE
        at = self._base + STRINGS + PAGE_SIZE
        for start, taken in sorted(self._sizes.values()):
            if at + room + PAGE_SIZE <= start:
                break
            at = start + -(-taken // PAGE_SIZE) * PAGE_SIZE + PAGE_SIZE
        if size < 1 or at + room > self._base + AREA:
            raise UsageError(f"no room for {size} bytes: all buffers share {AREA >> 20} MB")
        self._memory.map(at, room, _region(name), executable=False)
        self._sizes = {**self._sizes, name: (at, size)}
        return at

    def free(self, name: str) -> None:
        """Remove buffer `name`. Raises `UsageError`."""
        self.find(name)
        self._memory.unmap(_region(name))
        self._sizes = {known: at for known, at in self._sizes.items() if known != name}

    def string(self, text: bytes) -> int:
        """Store `text` and a NUL, and return the address. Raises `UsageError`."""
        if self._memory.region_at(self._base) is None:
            self._memory.map(self._base, STRINGS, _NAME, executable=False)
        at = self._strings.get(text)
        if at is None:
            last = max(self._strings.items(), key=lambda each: each[1], default=(b"", self._base))
            at = last[1] + -(-(len(last[0]) + 1) // 16) * 16 if self._strings else self._base
            if at + len(text) >= self._base + STRINGS:
                raise UsageError(f"no room for more strings: they share {STRINGS >> 10} kB")
            self._strings = {**self._strings, text: at}
        self._memory.write(at, text + b"\0")
        return at


def _region(name: str) -> str:
    return f"buffer {name}"
