"""The effect of an error: which call site or which file refused a change."""

from __future__ import annotations

from ..errors import DynftraceError, FtraceBug, TracefsError
from ..session.boot import Boot
from .outcome import Effect, NotPatched, NotWritten


def not_patched(boot: Boot, error: DynftraceError) -> tuple[Effect, ...]:
    """Return the effect of an `error` that ended a command."""
    if not isinstance(error, FtraceBug):
        return ()
    symbol = boot.kallsyms.lookup(error.ip)
    name = f"{error.ip:x}" if symbol is None else symbol.name
    return (NotPatched(error.ip, name.removeprefix(boot.port.facts.abi.text_prefix)),)


def not_written(
    boot: Boot, error: DynftraceError, absolute: str, append: bool
) -> tuple[Effect, ...]:
    """Return the effect of an `error` of a write to the file `absolute`."""
    if not isinstance(error, TracefsError):
        return not_patched(boot, error)
    return (NotWritten(boot.tracefs.canonical(absolute), error.errno, emptied=not append),)
