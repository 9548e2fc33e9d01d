"""Architectures by name, each loaded when it is asked for.

Nothing else in the project lists architectures: a port is a module with a
function `port()`, and one line here. Where the teaching kernel is built in more
than one way, each build is a port of its own, called ARCH-BUILD.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ..core.errors import UsageError

if TYPE_CHECKING:
    # A port's types need numpy, and a list of names must not load it.
    from ..core.arch import Port

_PORTS = {
    "x86_64": ".x86.x86_64.port",
    "i386": ".x86.i386.port",
    "x86_64-2008": ".x86.x86_64_2008.port",
    "ppc64": ".powerpc.ppc64.port",
    "ppc32": ".powerpc.ppc32.port",
    "mips": ".mips.mips32.port",
    "mipsel": ".mips.mipsel.port",
    "mips64": ".mips.mips64.port",
    "arm64": ".arm64.arm64.port",
    "arm64-mcount": ".arm64.mcount.port",
}

DEFAULT = "x86_64"


def names() -> tuple[str, ...]:
    """The architectures `--arch` takes, in the order they are shown."""
    return tuple(_PORTS)


def build(arch: str | None, kernel: str | None) -> tuple[str, str | None]:
    """The port that `--arch` and `--kernel` mean, either None if not given, and an image's path.

    `kernel` may name a build, whose port it then is. Raises `UsageError` where
    that is of another architecture.
    """
    if kernel not in _PORTS:
        return arch or DEFAULT, kernel
    of = kernel.partition("-")[0]
    if arch not in (None, of, kernel):
        raise UsageError(f"the kernel {kernel} is one of {of}, not of {arch}")
    return kernel, None


def load(name: str) -> Port:
    """The port called `name`; raises `UsageError` when there is none."""
    try:
        module = _PORTS[name]
    except KeyError:
        known = ", ".join(_PORTS)
        raise UsageError(f"no architecture {name!r}; there is: {known}") from None
    port: Port = import_module(module, __package__).port()
    return port
