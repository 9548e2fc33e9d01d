"""Registers of a vCPU by their ABI names, read and written in one call of the engine."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

from unicorn import Uc
from unicorn.unicorn_py3.unicorn import uclib

from ..errors import UsageError
from ..facts import Abi, Register


class Batch:
    """A fixed list of registers that are read and written together; its arrays are made once."""

    def __init__(self, uc: Uc, registers: Sequence[Register]) -> None:
        count = len(registers)
        self._handle = uc._uch
        self._count = count
        self._numbers = (ctypes.c_int * count)(*(register.number for register in registers))
        self._values = (ctypes.c_uint64 * count)()
        base = ctypes.addressof(self._values)
        self._pointers = (ctypes.c_void_p * count)(*(base + 8 * row for row in range(count)))

    def read(self) -> list[int]:
        """Return the values of the registers, in order."""
        ctypes.memset(self._values, 0, 8 * self._count)  # narrow registers fill only a part
        uclib.uc_reg_read_batch(self._handle, self._numbers, self._pointers, self._count)
        return list(self._values)

    def write(self, values: Sequence[int]) -> None:
        """Set all registers, in order."""
        self._values[:] = [*values]
        uclib.uc_reg_write_batch(self._handle, self._numbers, self._pointers, self._count)


class Single:
    """One register."""

    def __init__(self, uc: Uc, register: Register) -> None:
        self._handle = uc._uch
        self._number = register.number
        self._value = ctypes.c_uint64()
        self._pointer = ctypes.byref(self._value)

    def read(self) -> int:
        """Return its value."""
        self._value.value = 0
        uclib.uc_reg_read(self._handle, self._number, self._pointer)
        return self._value.value

    def write(self, value: int) -> None:
        """Set it."""
        self._value.value = value
        uclib.uc_reg_write(self._handle, self._number, self._pointer)


class Registers:
    """The registers a port names."""

    def __init__(self, uc: Uc, abi: Abi, width: int) -> None:
        """`width` is the size of a pointer in bytes; values are truncated to it."""
        named = [*abi.pt_regs, abi.pc, abi.sp, *abi.arguments, abi.result]
        if abi.link is not None:
            named.append(abi.link)
        if abi.toc is not None:
            named.append(abi.toc.register)
        self._by_name = {register.name: register for register in named}
        self._uc = uc
        self._mask = (1 << (8 * width)) - 1
        self._names = [register.name for register in abi.pt_regs]
        self._batches: dict[tuple[str, ...], Batch] = {}
        self.pt_regs = Batch(uc, abi.pt_regs)
        """The registers that an interrupt saves, in their order in memory."""
        self._pc = Single(uc, abi.pc)
        self._sp = Single(uc, abi.sp)
        self._result = Single(uc, abi.result)
        self._link = None if abi.link is None else Single(uc, abi.link)

    @property
    def pc(self) -> int:
        """The address of the next instruction."""
        return self._pc.read()

    @pc.setter
    def pc(self, value: int) -> None:
        self._pc.write(value & self._mask)

    @property
    def sp(self) -> int:
        """The stack pointer."""
        return self._sp.read()

    @property
    def result(self) -> int:
        """The result of the function that has just returned."""
        return self._result.read()

    @property
    def link(self) -> int | None:
        """The link register; None on architectures without one."""
        return None if self._link is None else self._link.read()

    def read(self) -> dict[str, int]:
        """Return the registers that an interrupt saves, by name, in the order of pt_regs."""
        return dict(zip(self._names, self.pt_regs.read(), strict=True))

    def write(self, values: Mapping[str, int]) -> None:
        """Set registers by name. Raises `UsageError` for an unknown name, before any is set."""
        names = tuple(values)
        batch = self._batches.get(names)
        if batch is None:
            for name in names:
                if name not in self._by_name:
                    raise UsageError(f"unknown register {name!r}")
            batch = Batch(self._uc, [self._by_name[name] for name in names])
            self._batches[names] = batch
        batch.write([value & self._mask for value in values.values()])
