"""Architectures by name, each loaded when it is first needed.

Nothing else in the project lists architectures: a port is a module with a function `port()`,
and one line here. If the teaching kernel is built in more than one way, each build is a port of
its own, called ARCH-BUILD.

Other packages provide ports by entry points of the group `dynftrace.arches`, each a name and a
function that returns the port. They are listed after the ports here, sorted by name, and cannot
replace one of these. Finding them takes 60 ms, so it is done only for a list of all names, or
for a name that is not here.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from os.path import abspath
from traceback import extract_tb
from typing import TYPE_CHECKING

from ..core.errors import ImageError, UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    # A port's types need numpy, and a list of names must not load it.
    from ..core.arch import Port
    from ..core.ftrace.static_sites import Reader

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

GROUP = "dynftrace.arches"
"""Group of the entry points that provide ports."""


def built_in() -> tuple[str, ...]:
    """Return the names of our own ports, in the order they are shown."""
    return tuple(_PORTS)


def builds() -> tuple[str, ...]:
    """Return our ports that are an alternative build of their architecture's kernel."""
    return tuple(name for name in _PORTS if name.partition("-")[0] != name)


def names() -> tuple[str, ...]:
    """Return the architectures that `--arch` accepts, in the order they are shown."""
    return (*_PORTS, *_brought())


def known(name: str) -> bool:
    """Return whether a port `name` exists."""
    return name in _PORTS or name in _brought()


def build(arch: str | None, kernel: str | None) -> tuple[str, str | None]:
    """Return the port that `--arch` and `--kernel` mean, and the path of an image, if any.

    Options not given are None. `kernel` may name a build, which is a port of its own. A file
    states its architecture. Raises `UsageError` if that is not `arch`, or if it has no port.
    """
    if kernel is None:
        return arch or DEFAULT, kernel
    if kernel not in _PORTS:
        return _of(kernel, arch), kernel
    of = kernel.partition("-")[0]
    if arch not in (None, of, kernel):
        raise UsageError(f"the kernel {kernel} is for {of}, not for {arch}")
    return kernel, None


def of_file(path: str) -> tuple[str, ...]:
    """Return the ports that the kernel or module at `path` is for, the usual one first.

    A name that is not a port is that of an architecture whose files can only be read. Empty if
    the file does not state its architecture, or cannot be read.
    """
    from ..core.elf.recognise import is_for
    from ..core.payload.unpack import heads
    from .readable import READABLE

    for head in heads(path):
        found = [name for name in _PORTS if is_for(head, load(name).facts)]
        found += [each.name for each in READABLE if is_for(head, each)]
        if found:
            return tuple(found)
    return ()


def reader(path: str, arch: str | None = None) -> Reader:
    """Return the reader for the sites of the file at `path`; `arch` overrides the file's own.

    Raises `UsageError` if the file states a different architecture.
    """
    from ..core.ftrace.static_sites import Reader
    from .readable import READABLE

    found = of_file(path)
    if arch is not None and found and arch not in found:
        raise UsageError(f"{path} is for {found[0]}, not for {arch}: leave out --arch")
    name = arch or (found[0] if found else DEFAULT)
    for each in READABLE:
        if each.name == name:
            return Reader(each, each.call_adjust, each.cs_arch, each.cs_mode)
    port = load(name)
    engine = port.facts.engine
    return Reader(port.facts, port.call_adjust, engine.cs_arch, engine.cs_mode)


def _of(kernel: str, arch: str | None) -> str:
    """Return the port for the file `kernel`, if `--arch` is `arch`.

    Raises `UsageError` for a different `--arch`, `ImageError` for a file of no port.
    """
    if arch is not None and arch not in _PORTS:
        return arch
    found = of_file(kernel)
    if not found or arch in found:
        return arch or (found[0] if found else DEFAULT)
    if arch is not None:
        raise UsageError(f"{kernel} is for {found[0]}, not for {arch}: leave out --arch")
    if found[0] not in _PORTS:
        reason = f"is for {found[0]}, which cannot run here: 'dynftrace sites {kernel}' reads it"
        raise ImageError(kernel, reason)
    return found[0]


def load(name: str) -> Port:
    """Return the port `name`; raises `UsageError` if it does not exist or cannot be loaded."""
    if name in _PORTS:
        port: Port = import_module(_PORTS[name], __package__).port()
        return port
    entry = _brought().get(name)
    if entry is None:
        raise UsageError(f"unknown architecture {name!r} (choose from: {', '.join(names())})")
    try:
        brought: Port = entry.load()()
        own = brought.facts.name
    except Exception as error:
        # Code of another package: whatever it raises, the user gets one sentence.
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise UsageError(f"the port {name!r} of {entry.value} cannot be loaded: {what}") from error
    if own != name:
        raise UsageError(f"the port {name!r} of {entry.value} calls itself {own!r}")
    return brought


def load_file(path: str) -> Port:
    """Return the port in the Python file `path`, which is executed: its function `port()`.

    Raises `UsageError` if the file cannot be loaded.
    """
    from importlib.util import module_from_spec, spec_from_file_location

    try:
        spec = spec_from_file_location("port_under_test", path)
        if spec is None or spec.loader is None:
            raise UsageError(f"{path}: a port must be in a file named *.py")
        module = module_from_spec(spec)
        # Classes with slots are made anew, and look up their module by its name.
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        found: Port = module.port()
        _ = found.facts.name
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except UsageError:
        raise
    except Exception as error:
        # Code of the user: whatever it raises, the user gets one sentence.
        frames = extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == abspath(path)]
        line = error.lineno if isinstance(error, SyntaxError) else (lines or [None])[-1]
        what = " ".join(f"{type(error).__name__}: {error}".split())
        place = path if line is None else f"{path}:{line}"
        raise UsageError(f"{place}: the port cannot be loaded: {what}") from error
    return found


@cache
def _brought() -> dict[str, EntryPoint]:
    """Return the entry points of other packages, by name; of two with one name, the first."""
    from importlib.metadata import entry_points

    found: dict[str, EntryPoint] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value)):
        if entry.name not in _PORTS:
            found.setdefault(entry.name, entry)
    return found
