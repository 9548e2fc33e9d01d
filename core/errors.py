"""Every error dynftrace raises on purpose.

    DynftraceError                one sentence for the user, always
    ├── UsageError                an invalid command, option or argument
    ├── ImageError                an ELF file that cannot be used (path, section, offset)
    │   ├── WrongMachineError     built for another architecture, word size or byte order
    │   ├── NoCallSitesError      the file has no mcount call site
    │   └── MissingSymbolError    the file lacks a symbol that the tracer needs
    ├── TraceFileError            a trace.dat that cannot be read (path, offset)
    ├── TracefsError              a tracefs operation that the kernel refuses (errno)
    ├── ModuleError               insmod or rmmod refused (errno, module)
    │   ├── RelocationOverflow    a value does not fit its field (ENOEXEC)
    │   ├── UnknownRelocation     a relocation type that the port does not know (ENOEXEC)
    │   └── UnknownSymbol         a symbol that is not exported (ENOENT)
    ├── FtraceBug                 text that is not what ftrace expected; nothing was written
    ├── AssemblyError             a source that the assembler refuses (line, column)
    │   └── NoAssemblerError      Keystone is not installed
    ├── HostMemoryError           the host has too little memory
    ├── MemoryFault               guest memory that is not mapped, or cannot be mapped
    └── GuestError                the guest cannot continue as asked
        ├── GuestOops             a vCPU took a fault that it cannot handle
        ├── GuestHang             a bounded run did not finish in time
        └── GuestInterrupted      the user stopped a run before its end

Nothing else may reach a user: a front end prints `str(error)` and exits with status 1.
Errors of tracefs and of modules have the kernel's errno. Their message is strerror's text
for it, unless the kernel has a message of its own.
"""

from __future__ import annotations

import errno as errno_names
import os
import re
from collections.abc import Sequence
from enum import Enum


class DynftraceError(Exception):
    """Base of all errors; `str()` is one sentence for the user."""


class UsageError(DynftraceError):
    """An invalid command, option or argument."""


class ImageError(DynftraceError):
    """An ELF file that cannot be used.

    `section` and `offset` (bytes from the start of the file) locate the problem, if it has
    a place.
    """

    def __init__(
        self, path: str, reason: str, *, section: str | None = None, offset: int | None = None
    ) -> None:
        where = path
        if section is not None:
            where += f": section {section}"
        if offset is not None:
            where += f": offset {offset:#x}"
        super().__init__(f"{where}: {reason}")
        self.path = path
        self.reason = reason
        self.section = section
        self.offset = offset


class WrongMachineError(ImageError):
    """The file is for another architecture, word size or byte order."""


class NoCallSitesError(ImageError):
    """No call site was found in the file; the message says what the file lacks."""


class MissingSymbolError(ImageError):
    """The image does not define a symbol that tracing needs."""

    def __init__(self, path: str, symbol: str) -> None:
        super().__init__(path, f"symbol {symbol} is needed for tracing and is not defined")
        self.symbol = symbol


class TraceFileError(DynftraceError):
    """A recorded trace that cannot be read; `offset` is in bytes from the start of the file."""

    def __init__(self, path: str, reason: str, offset: int | None = None) -> None:
        where = path if offset is None else f"{path}: offset {offset:#x}"
        super().__init__(f"{where}: {reason}")
        self.path = path
        self.reason = reason
        self.offset = offset


class TracefsError(DynftraceError):
    """A read or write of tracefs that the kernel would refuse.

    `errno` is the kernel's; `detail` replaces the text of strerror.
    """

    def __init__(self, errno: int, detail: str | None = None) -> None:
        super().__init__(detail if detail is not None else os.strerror(errno))
        self.errno = errno

    @property
    def name(self) -> str:
        """The symbolic name, such as `EINVAL`."""
        return errno_names.errorcode.get(self.errno, str(self.errno))


class CommandError(TracefsError):
    """A command for tracefs that the kernel also explains in the file error_log.

    `reason` is the kernel's text; `word` is what it is about, in word `index` of the command,
    `offset` characters after its start. Without `offset`, `word` is searched there.
    """

    def __init__(
        self, errno: int, reason: str, word: str, index: int, offset: int | None = None
    ) -> None:
        super().__init__(errno, f"{os.strerror(errno)}: {reason}{f': {word}' if word else ''}")
        self.reason = reason
        self.word = word
        self.index = index
        self.offset = offset

    def column(self, words: Sequence[str]) -> int:
        """Return where the error is in the command, whose words a blank separates."""
        if self.index >= len(words):
            return len(" ".join(words)) + 1
        if self.offset is not None:
            return len(" ".join([*words[: self.index], ""])) + self.offset
        at = re.search(rf"(?<![\w$]){re.escape(self.word)}", words[self.index])
        return len(" ".join([*words[: self.index], ""])) + (at.start() if at else 0)


class ModuleError(DynftraceError):
    """insmod or rmmod refused `module` with `errno`."""

    def __init__(self, module: str, errno: int, detail: str | None = None) -> None:
        super().__init__(detail if detail is not None else f"{module}: {os.strerror(errno)}")
        self.module = module
        self.errno = errno


class RelocationOverflow(ModuleError):
    """`value` does not fit the field at `location` (both guest addresses)."""

    def __init__(self, module: str, value: int, location: int, kind: str) -> None:
        super().__init__(
            module,
            errno_names.ENOEXEC,
            f"module {module}: relocation overflow, v:{value:x}, location:{location:x} ({kind})",
        )
        self.value = value
        self.location = location
        self.kind = kind


class UnknownRelocation(ModuleError):
    """The port does not know the relocation type `kind` (its name) at `location`.

    `location` is a guest address.
    """

    def __init__(self, module: str, kind: str, location: int) -> None:
        super().__init__(
            module,
            errno_names.ENOEXEC,
            f"module {module}: unknown relocation type {kind} at {location:x}",
        )
        self.kind = kind
        self.location = location


class UnknownSymbol(ModuleError):
    """Neither the kernel nor a loaded module exports `symbol`."""

    def __init__(self, module: str, symbol: str) -> None:
        super().__init__(module, errno_names.ENOENT, f"{module}: Unknown symbol {symbol} (err -2)")
        self.symbol = symbol


FTRACE_FAILURES = {
    errno_names.EFAULT: "ftrace faulted on modifying",
    errno_names.EINVAL: "ftrace failed to modify",
    errno_names.EPERM: "ftrace faulted on writing",
}
"""Messages of `ftrace_bug()` in kernel/trace/ftrace.c, by errno."""


class FtraceBugType(Enum):
    """What ftrace was doing when it failed (`enum ftrace_bug_type`), in the kernel's words."""

    INIT = "Initializing ftrace call sites"
    NOP = "Setting ftrace call site to NOP"
    CALL = "Setting ftrace call site to call ftrace function"
    UPDATE = "Updating ftrace call site to call a different ftrace function"


class FtraceBug(DynftraceError):
    """Text of the site at `ip` was not what ftrace expected; nothing was written.

    `type` is what ftrace was doing; None before the bug is reported. `errno` is EFAULT (the
    text could not be read), EINVAL (it was not what was expected) or EPERM (it could not be
    written); `failure` is the kernel's wording of it. `expected` and `found` are the bytes at
    `address`, which is `ip` itself, the start of the change, or the wrong word of the stub that
    the call uses. `reason` is the port's explanation, one clause. `report` holds the kernel's
    lines for dmesg.
    """

    def __init__(
        self,
        ip: int,
        *,
        errno: int,
        type: FtraceBugType | None = None,
        expected: bytes = b"",
        found: bytes = b"",
        address: int | None = None,
        symbol: str = "",
        reason: str = "",
        report: tuple[str, ...] = (),
    ) -> None:
        place = f"[<{ip:08x}>]" + (f" {symbol}" if symbol else "")
        differ = found and found != expected
        detail = f": expected {expected.hex(' ')}, found {found.hex(' ')}" if differ else ""
        detail += f": {reason}" if reason else ""
        super().__init__(f"{FTRACE_FAILURES[errno]} {place}{detail}")
        self.ip = ip
        self.errno = errno
        self.type = type
        self.expected = expected
        self.found = found
        self.address = ip if address is None else address
        self.symbol = symbol
        self.reason = reason
        self.report = report

    @property
    def failure(self) -> str:
        """The kernel's words for `errno`."""
        return FTRACE_FAILURES[self.errno]


class AssemblyError(DynftraceError):
    """The assembler refused `source`; `line` counts from 1, 0 if unknown.

    `column` is the place of the wrong word in a `source` of one line, from 0; None if unknown.
    """

    def __init__(self, reason: str, source: str, line: int = 0, column: int | None = None) -> None:
        place = f"line {line}: " if line else ""
        super().__init__(f"cannot assemble: {place}{reason}")
        self.reason = reason
        self.source = source
        self.line = line
        self.column = column


class NoAssemblerError(AssemblyError):
    """`source` cannot be assembled, because this host has no Keystone."""

    def __init__(self, source: str) -> None:
        super().__init__(
            "the package keystone-engine is not installed; bytes in hex work without it", source
        )


class HostMemoryError(DynftraceError):
    """The host gives this process too little memory."""

    def __init__(self) -> None:
        super().__init__(
            "not enough memory: raise the limit of address space (ulimit -v), close other "
            "programs, or use fewer CPUs (--cpus)"
        )


class MemoryFault(DynftraceError):
    """`size` bytes of guest memory at `address` cannot be used, for `reason`."""

    def __init__(self, address: int, size: int, reason: str = "not mapped") -> None:
        super().__init__(f"guest memory at {address:#x} ({size} bytes): {reason}")
        self.address = address
        self.size = size
        self.reason = reason


class GuestError(DynftraceError):
    """The guest cannot continue as asked."""


class GuestOops(GuestError):
    """vCPU `cpu` stopped at `pc` with a fault; `report` has the lines for dmesg."""

    cause = ""
    """The cause of the oops, if it was found later."""

    def __init__(self, reason: str, *, cpu: int, pc: int, report: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.cpu = cpu
        self.pc = pc
        self.report = report

    def ended(self, failure: str = "") -> GuestOops:
        """Return an error for the run that this oops ended: `failure`, with the oops as reason."""
        reason = f"CPU {self.cpu} has stopped: {self}"
        reason = f"{failure}: {reason}" if failure else reason
        return GuestOops(reason, cpu=self.cpu, pc=self.pc, report=self.report)


class GuestHang(GuestError):
    """A run did not finish within `limit` virtual ns."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"{what} did not finish within {limit / 1e9:.3f} s of virtual time")
        self.limit = limit


class GuestInterrupted(GuestError):
    """The user stopped the machine during `what`; the guest can continue."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} was interrupted")
