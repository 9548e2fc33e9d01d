"""The options of the trace: `trace_options`, one a line, and `options/NAME`."""

from __future__ import annotations

from collections.abc import Mapping

from .array import TraceArray
from .number import switch
from .tree import Directory, File, Node


class TraceOptions(File):
    """All options; one that is off has `no` before its name."""

    mode = 0o644

    def __init__(self, array: TraceArray) -> None:
        self._array = array

    def read(self) -> str:
        """One a line; those of a tracer while it is on."""
        shown = {**self._array.options, **self._array.tracer_options}
        return "".join(f"{name}\n" if on else f"no{name}\n" for name, on in shown.items())

    def write(self, text: str) -> None:
        """Turn one on by its name, off by `no` and its name."""
        name = text.strip()
        on = not name.startswith("no")
        self._array.set_option(name if on else name[2:], on)


class Option(File):
    """One option: 1 or 0."""

    mode = 0o644

    def __init__(self, array: TraceArray, name: str) -> None:
        self._array = array
        self._name = name

    def read(self) -> str:
        """1 or 0."""
        return f"{int(self._array.all_options[self._name])}\n"

    def write(self, text: str) -> None:
        """1 or 0; no other number."""
        self._array.set_option(self._name, switch(text))


def files(array: TraceArray) -> Mapping[str, Node]:
    """This file's files by name."""
    return {
        "trace_options": TraceOptions(array),
        "options": Directory({name: Option(array, name) for name in array.all_options}),
    }
