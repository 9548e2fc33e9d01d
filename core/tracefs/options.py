"""The options of the trace: `trace_options`, one a line, and `options/NAME`."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Protocol

from ..errors import TracefsError
from .number import switch
from .tree import Directory, File, Node


class Options(Protocol):
    """A trace array, as far as these files need it; each option is on or off, by name."""

    @property
    def options(self) -> Mapping[str, bool]:
        """The options that do not belong to a tracer."""
        ...

    @property
    def tracer_options(self) -> Mapping[str, bool]:
        """The options of the current tracer."""
        ...

    @property
    def all_options(self) -> Mapping[str, bool]:
        """All options, including those of every tracer."""
        ...

    def set_option(self, name: str, value: bool) -> None:
        """Change an option. Raises `TracefsError` (EINVAL) if it does not exist."""
        ...


class TraceOptions(File):
    """All options; an option that is off has the prefix `no`."""

    mode = 0o644

    def __init__(self, options: Options) -> None:
        self._options = options

    def read(self) -> str:
        """Return one option a line, including those of the current tracer."""
        shown = {**self._options.options, **self._options.tracer_options}
        return "".join(f"{name}\n" if on else f"no{name}\n" for name, on in shown.items())

    def write(self, text: str) -> None:
        """Turn an option on by its name, off by `no` and its name.

        Raises `TracefsError` (EINVAL) for an option of another tracer: the files in `options` exist
        for all tracers, but `trace_set_options()` searches only those of the current one.
        """
        name = text.strip()
        on = not name.startswith("no")
        name = name if on else name[2:]
        if name not in self._options.options and name not in self._options.tracer_options:
            raise TracefsError(errno.EINVAL)
        self._options.set_option(name, on)


class Option(File):
    """One option."""

    mode = 0o644

    def __init__(self, options: Options, name: str) -> None:
        self._options = options
        self._name = name

    def read(self) -> str:
        """Return 1 or 0."""
        return f"{int(self._options.all_options[self._name])}\n"

    def write(self, text: str) -> None:
        """Accept 1 or 0."""
        self._options.set_option(self._name, switch(text))


def files(options: Options) -> Mapping[str, Node]:
    """Return the files of this module by name."""
    return {
        "trace_options": TraceOptions(options),
        "options": Directory({name: Option(options, name) for name in options.all_options}),
    }
