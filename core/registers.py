"""A vCPU's registers by their ABI names, read and written in one call of the engine."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

from unicorn import Uc
from unicorn.unicorn_py3.unicorn import uclib

from .arch import Abi, Register
from .errors import UsageError


class Batch:
    """A fixed list of registers that go together; the arrays are made once."""

    def __init__(self, uc: Uc, registers: Sequence[Register]) -> None:
        count = len(registers)
        self._handle = uc._uch
        self._count = count
        self._numbers = (ctypes.c_int * count)(*(register.number for register in registers))
        self._values = (ctypes.c_uint64 * count)()
        base = ctypes.addressof(self._values)
        self._pointers = (ctypes.c_void_p * count)(*(base + 8 * row for row in range(count)))

    def read(self) -> list[int]:
        """Their values, in order."""
        ctypes.memset(self._values, 0, 8 * self._count)  # narrow registers fill only a part
        uclib.uc_reg_read_batch(self._handle, self._numbers, self._pointers, self._count)
        return list(self._values)

    def write(self, values: Sequence[int]) -> None:
        """Set all of them, in order."""
        self._values[:] = [*values]
        uclib.uc_reg_write_batch(self._handle, self._numbers, self._pointers, self._count)


class Registers:
    """The registers a port names."""

    def __init__(self, uc: Uc, abi: Abi, width: int) -> None:
        """`width` is that of a pointer, in bytes; values are taken modulo it."""
        named = [*abi.pt_regs, abi.pc, abi.sp, *abi.arguments, abi.result]
        if abi.link is not None:
            named.append(abi.link)
        self._by_name = {register.name: register for register in named}
        self._uc = uc
        self._mask = (1 << (8 * width)) - 1
        self._names = [register.name for register in abi.pt_regs]
        self.pt_regs = Batch(uc, abi.pt_regs)
        """Those an interrupt saves, in their order in memory."""
        self._pc = Batch(uc, (abi.pc,))
        self._sp = Batch(uc, (abi.sp,))

    @property
    def pc(self) -> int:
        """The address of the next instruction."""
        return self._pc.read()[0]

    @pc.setter
    def pc(self, value: int) -> None:
        self._pc.write([value])

    @property
    def sp(self) -> int:
        """The stack pointer."""
        return self._sp.read()[0]

    def read(self) -> dict[str, int]:
        """All that an interrupt saves, by name, in the order of pt_regs."""
        return dict(zip(self._names, self.pt_regs.read(), strict=True))

    def read_one(self, register: Register) -> int:
        """One register."""
        return int(self._uc.reg_read(register.number)) & self._mask

    def write(self, values: Mapping[str, int]) -> None:
        """Set registers by name; raises `UsageError` before any if one is not known."""
        for name in values:
            if name not in self._by_name:
                raise UsageError(f"no register {name!r}")
        chosen = [self._by_name[name] for name in values]
        Batch(self._uc, chosen).write([value & self._mask for value in values.values()])
