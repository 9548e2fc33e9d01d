"""Architectures by name, each loaded when it is asked for.

Nothing else in the project lists architectures: a port is a module with a
function `port()`, and one line here.
"""

from __future__ import annotations

from importlib import import_module

from ..core.arch import Port
from ..core.errors import UsageError

_PORTS = {
    "x86_64": ".x86.port",
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
