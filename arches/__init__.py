"""Architectures by name, each loaded when it is asked for.

Nothing else in the project lists architectures: a port is a module with a
function `port()`, and one line here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ..core.errors import UsageError

if TYPE_CHECKING:
    # A port's types need numpy, and a list of names must not load it.
    from ..core.arch import Port

_PORTS = {
    "x86_64": ".x86.port",
    "ppc64": ".powerpc.ppc64.port",
    "ppc32": ".powerpc.ppc32.port",
    "mips": ".mips.mips32.port",
    "mipsel": ".mips.mipsel.port",
    "mips64": ".mips.mips64.port",
}

DEFAULT = "x86_64"


def names() -> tuple[str, ...]:
    """The architectures `--arch` takes, in the order they are shown."""
    return tuple(_PORTS)


def load(name: str) -> Port:
    """The port called `name`; raises `UsageError` when there is none."""
    try:
        module = _PORTS[name]
    except KeyError:
        known = ", ".join(_PORTS)
        raise UsageError(f"no architecture {name!r}; there is: {known}") from None
    port: Port = import_module(module, __package__).port()
    return port
