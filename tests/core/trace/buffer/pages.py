"""Sub-buffer pages packed event by event with struct, in the kernel's layout."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

PAGE = 4096
FN = 1
STACK = 4
PRINT = 5


@dataclass
class Page:
    """The bytes of one page; each method appends one event."""

    byteorder: str = "little"
    pointer_size: int = 8
    stamp: int = 0
    data: bytes = b""
    commit: int | None = None
    order: str = field(init=False)
    long: str = field(init=False)

    def __post_init__(self) -> None:
        self.order = "<" if self.byteorder == "little" else ">"
        self.long = "Q" if self.pointer_size == 8 else "I"

    def header(self, kind: int, delta: int) -> bytes:
        word = delta << 5 | kind if self.byteorder == "little" else kind << 27 | delta
        return struct.pack(self.order + "I", word)

    def word(self, value: int) -> bytes:
        return struct.pack(self.order + "I", value)

    def event(self, delta: int, payload: bytes, long: bool = False) -> Page:
        payload += bytes(-len(payload) % 4)
        if long or len(payload) > 28 * 4:
            self.data += self.header(0, delta) + self.word(len(payload) + 4) + payload
        else:
            self.data += self.header(len(payload) // 4, delta) + payload
        return self

    def entry(self, kind: int, flags: int, preempt: int, pid: int) -> bytes:
        return struct.pack(self.order + "HBBi", kind, flags, preempt, pid)

    def function(
        self,
        delta: int,
        ip: int,
        parent: int,
        *,
        pid: int = 1,
        flags: int = 0,
        preempt: int = 0,
        long: bool = False,
    ) -> Page:
        longs = struct.pack(f"{self.order}2{self.long}", ip, parent)
        return self.event(delta, self.entry(FN, flags, preempt, pid) + longs, long)

    def text(self, delta: int, ip: int, text: bytes, *, pid: int = 1) -> Page:
        payload = self.entry(PRINT, 0, 0, pid) + struct.pack(self.order + self.long, ip)
        return self.event(delta, payload + text + b"\0")

    def stack(
        self, delta: int, callers: list[int], *, pid: int = 1, size: int | None = None
    ) -> Page:
        """Append a stack trace that claims to have `size` addresses."""
        number = struct.pack(self.order + "i", len(callers) if size is None else size)
        longs = struct.pack(f"{self.order}{len(callers)}{self.long}", *callers)
        room = bytes(self.pointer_size - 4)
        return self.event(delta, self.entry(STACK, 0, 0, pid) + number + room + longs)

    def hit(
        self, delta: int, kind: int, ip: int, parent: int, registers: list[int], *, pid: int = 1
    ) -> Page:
        longs = struct.pack(f"{self.order}{2 + len(registers)}{self.long}", ip, parent, *registers)
        return self.event(delta, self.entry(kind, 0, 0, pid) + longs)

    def call(self, delta: int, kind: int, nr: int, longs: list[int], *, pid: int = 1) -> Page:
        """Append the entry or the exit of a system call."""
        number = struct.pack(self.order + "i", nr) + bytes(self.pointer_size - 4)
        values = struct.pack(f"{self.order}{len(longs)}{self.long}", *longs)
        return self.event(delta, self.entry(kind, 0, 0, pid) + number + values)

    def extend(self, delta: int) -> Page:
        self.data += self.header(30, delta & (1 << 27) - 1) + self.word(delta >> 27)
        return self

    def absolute(self, stamp: int) -> Page:
        stamp &= (1 << 59) - 1
        self.data += self.header(31, stamp & (1 << 27) - 1) + self.word(stamp >> 27)
        return self

    def discarded(self, size: int) -> Page:
        self.data += self.header(29, 1) + self.word(size - 4) + bytes(size - 8)
        return self

    def padding(self) -> Page:
        self.data += self.header(29, 0)
        return self

    def raw(self, data: bytes) -> Page:
        self.data += data
        return self

    def bytes(self) -> bytes:
        commit = len(self.data) if self.commit is None else self.commit
        page = struct.pack(self.order + "QQ", self.stamp, commit) + self.data
        return page + bytes(PAGE - len(page))
