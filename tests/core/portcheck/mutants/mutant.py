"""What a mutant is: a port with one mistake, and the ways to make one from a true port."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dynftrace import arches

AnyPort = Any
"""A port, of which tests change what no protocol names."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A broken port."""

    name: str
    """The mistake in a few words, unique for the port."""
    port: str
    check: str
    """Name of the check that catches it."""
    change: Callable[[AnyPort], AnyPort]
    """Makes the mutant from the true port."""

    def made(self) -> AnyPort:
        """Return the mutant."""
        return self.change(arches.load(self.port))

    def __str__(self) -> str:
        return f"{self.port}: {self.name}"


def with_members(port: AnyPort, facts: Any = None, **members: Any) -> AnyPort:
    """Return `port` as an object of a subclass with these members, and other facts if given."""
    kind = type("Mutant", (type(port),), {"__slots__": (), **members})
    values = {each.name: getattr(port, each.name) for each in dataclasses.fields(port)}
    if facts is not None:
        values["facts"] = facts
    return kind(**values)


def entry(name: str, port: str, check: str, old: str, new: str = "") -> Mutant:
    """Return a mutant with `new` for `old` in entry.S, which must contain it once."""

    def change(true: AnyPort) -> AnyPort:
        source = true.entry_source()
        assert source.count(old) == 1, (name, port, source.count(old))
        text = source.replace(old, new)
        return with_members(true, entry_source=lambda self: text)

    return Mutant(name, port, check, change)


def verb(name: str, port: str, check: str, **members: Callable[..., Any]) -> Mutant:
    """Return a mutant with other verbs; each gets the true port instead of `self`."""

    def change(true: AnyPort) -> AnyPort:
        def bound(function: Callable[..., Any]) -> Callable[..., Any]:
            return lambda self, *arguments: function(true, *arguments)

        return with_members(true, **{key: bound(each) for key, each in members.items()})

    return Mutant(name, port, check, change)


def other(name: str, port: str, check: str, change: Callable[[AnyPort], AnyPort]) -> Mutant:
    """Return a mutant that is made by `change`."""
    return Mutant(name, port, check, change)
