"""See and understand Linux dynamic ftrace: a tracing console over an emulated kernel.

    import dynftrace

    with dynftrace.open("arm64") as machine:
        machine.files["current_tracer"] = "function"
        machine.run("syscalls")
        print(machine.trace())

docs/api.md describes the library.
"""

from __future__ import annotations

# Not from typing, whose import takes time: __main__ comes after this, and catches ctrl+c.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from dynftrace.core.errors import DynftraceError
    from dynftrace.tui.library.machine import CommandError, TracedMachine
    from dynftrace.tui.library.machine import open_machine as open
    from dynftrace.tui.library.shown import Path, Picture, Site, Trace

__version__ = "0.2.0"

__all__ = [
    "CommandError",
    "DynftraceError",
    "Path",
    "Picture",
    "Site",
    "Trace",
    "TracedMachine",
    "__version__",
    "open",
]

_HOMES = {
    "open": ("tui.library.machine", "open_machine"),
    "TracedMachine": ("tui.library.machine", "TracedMachine"),
    "CommandError": ("tui.library.machine", "CommandError"),
    "DynftraceError": ("core.errors", "DynftraceError"),
    **{name: ("tui.library.shown", name) for name in ("Path", "Picture", "Site", "Trace")},
}
"""Module and name of each public name: imported on use, so that `--help` stays fast."""


def __getattr__(name: str) -> object:
    """Import a public name. Raises `AttributeError`."""
    if name not in _HOMES:
        raise AttributeError(f"module 'dynftrace' has no attribute {name!r}")
    from importlib import import_module

    module, own = _HOMES[name]
    return getattr(import_module(f"dynftrace.{module}"), own)
