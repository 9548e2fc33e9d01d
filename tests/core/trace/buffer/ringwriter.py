"""A ring buffer without a machine: host memory, and the writer's algorithm in Python."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from dynftrace.core import abi
from dynftrace.core.errors import MemoryFault
from dynftrace.core.trace.buffer.ringbuffer import RingBuffer
from dynftrace.core.trace.buffer.subbuffer import DATA_SIZE, PageFormat

BASE = 0xFFFF_C900_0000_0000


class HostMemory:
    """Named regions of numpy bytes, at most `limit` bytes in all."""

    limit = 1 << 30

    def __init__(self) -> None:
        self.regions: dict[str, tuple[int, NDArray[np.uint8]]] = {}

    def map(self, address: int, size: int, name: str, executable: bool = True) -> object:
        assert name not in self.regions
        if size + sum(len(data) for _, data in self.regions.values()) > self.limit:
            raise MemoryFault(address, size, "no room")
        self.regions[name] = (address, np.zeros(size, np.uint8))
        return None

    def unmap(self, name: str) -> None:
        del self.regions[name]

    def view(self, address: int, size: int) -> NDArray[np.uint8]:
        for start, data in self.regions.values():
            if start <= address and address + size <= start + len(data):
                return data[address - start : address - start + size]
        raise AssertionError(f"not mapped: {address:x}+{size:x}")


class Writer:
    """Ring buffers of `cpus` CPUs, written by a test as the guest's tracer writes them.

    Events are function events; ip is a counter shared by all CPUs.
    """

    def __init__(self, cpus: int = 1, byteorder: str = "little", pointer_size: int = 8) -> None:
        self.memory = HostMemory()
        self.layout = PageFormat(byteorder, pointer_size, registers=3)
        self.descriptors = [np.zeros((), abi.ring_buffer_cpu(byteorder)) for _ in range(cpus)]
        self.clock = 1000
        self.next = 1
        self.settled = 0
        self.ring = RingBuffer(
            self.memory,
            self.descriptors,
            self.layout,
            BASE,
            now=lambda cpu: self.clock,
            settle=self.settle,
        )

    def settle(self) -> None:
        self.settled += 1

    def write(self, count: int = 1, cpu: int = 0, step: int = 10) -> None:
        """Write `count` events, `step` ns apart."""
        for _ in range(count):
            self.clock += step
            self._write_one(cpu, self.next)
            self.next += 1

    def _write_one(self, cpu: int, ip: int) -> None:
        d = self.descriptors[cpu]
        flags = abi.RingBufferFlag(int(d["flags"]))
        if abi.RingBufferFlag.RECORD_ON not in flags:
            return
        size = self.layout.function_size
        commit = self._commit(cpu, int(d["tail_page"]))
        fresh = commit == 0
        if commit + size > DATA_SIZE:
            following = (int(d["tail_page"]) + 1) % int(d["nr_pages"])
            if following == int(d["head_page"]):
                if abi.RingBufferFlag.OVERWRITE not in flags:
                    d["dropped"] += np.uint64(1)
                    return
                unread = self._commit(cpu, following) - int(d["read"])
                d["overrun"] += np.uint64(max(unread, 0) // size)  # a damaged page has less
                d["head_page"] = (following + 1) % int(d["nr_pages"])
                d["read"] = 0
            self._page(cpu, following)[:16] = 0
            d["tail_page"] = following
            commit, fresh = 0, True
        page = self._page(cpu, int(d["tail_page"]))
        order = self.layout.order
        if fresh:
            page[:8] = np.frombuffer(struct.pack(order + "Q", self.clock), np.uint8)
        delta = 0 if fresh else self.clock - int(d["write_stamp"])
        kind = size // 4 - 1
        header = delta << 5 | kind if order == "<" else kind << 27 | delta
        long = "Q" if self.layout.pointer_size == 8 else "I"
        event = struct.pack(order + "IHBBi2" + long, header, 1, 0, 0, cpu, ip, ip)
        page[16 + commit : 16 + commit + size] = np.frombuffer(event, np.uint8)
        page[8:16] = np.frombuffer(struct.pack(order + "Q", commit + size), np.uint8)
        d["write_stamp"] = self.clock
        d["entries"] += np.uint64(1)

    def _page(self, cpu: int, index: int) -> NDArray[np.uint8]:
        address = int(self.descriptors[cpu]["pages"]) + index * 4096
        return self.memory.view(address, 4096)

    def _commit(self, cpu: int, index: int) -> int:
        page = self._page(cpu, index)
        return int.from_bytes(page[8:16].tobytes(), self.layout.byteorder)  # type: ignore[arg-type]
