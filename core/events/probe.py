"""Definitions of kprobes, return probes and event probes.

    p[:[GRP/][EVENT]] [MOD:]SYM[+OFFS]|ADDRESS [FETCHARGS]
    r[MAXACTIVE][:[GRP/][EVENT]] [MOD:]SYM[+0] [FETCHARGS]
    p[:[GRP/][EVENT]] [MOD:]SYM[+0]%return [FETCHARGS]
    e[:[GRP/][EVENT]] GRP.EVENT [FETCHARGS] [if FILTER]

Errors and their positions are the kernel's. Source: kernel/trace/trace_kprobe.c,
trace_eprobe.c and trace_probe.c, 6.1.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..errors import CommandError
from .fetch import Argument, FetchError, Source, number, parse_argument, split_symbol
from .fields import Field

KPROBES, EPROBES = "kprobes", "eprobes"
"""Groups of events whose definition names none."""

BAD_ADDRESS = "Invalid probed address or symbol"
MOST_ARGUMENTS = 128

_NAME_LENGTH = 64
_MOST_ACTIVE = 4096
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_GROUP = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)
_RULES = "name must follow the same rules as C identifiers"


@dataclass(frozen=True, slots=True)
class ProbeDefinition:
    """One definition. Several of one kind may make the same event."""

    kind: str
    """`p` at an instruction, `r` at a return, `e` at an event."""
    group: str
    event: str
    place: str
    """The probed place or event, as the files list it."""
    arguments: tuple[Argument, ...] = ()
    symbol: str = ""
    """Symbol, with its module if given; empty for an address."""
    offset: int = 0
    """Offset from the symbol in bytes; without a symbol, the address."""
    maxactive: int = 0
    """Calls in flight that a return probe follows; 0 for the default."""
    condition: str = ""
    """Filter of an event probe."""

    @property
    def line(self) -> str:
        """The definition as the files list it."""
        active = str(self.maxactive or "")
        words = [f"{each.name}={each.text}" for each in self.arguments]
        return " ".join([f"{self.kind}{active}:{self.group}/{self.event}", self.place, *words])

    @property
    def size(self) -> int:
        """Bytes of the arguments, without strings."""
        last = self.arguments[-1] if self.arguments else None
        return last.offset + last.size if last is not None else 0

    def matches(self, group: str | None, event: str, words: Sequence[str]) -> bool:
        """Return whether a removal names this definition; `words` follow the names."""
        named = group in (None, self.group) and event in ("", self.event)
        return named and self.line.split()[1:][: len(words)] == list(words)


class Kernel(Protocol):
    """The kernel, as far as parsing a kprobe needs it."""

    def symbols(self, name: str) -> int:
        """Return the number of symbols of this name."""
        ...

    def on_entry(self, symbol: str, offset: int) -> bool | None:
        """Return whether `symbol`+`offset` is a function's entry; None for an unknown symbol."""
        ...

    def source(self, *, entry: bool, returns: bool) -> Source:
        """Return the sources from which arguments can be fetched."""
        ...


def refused(
    words: Sequence[str], index: int, at: int, reason: str, number: int = errno.EINVAL
) -> CommandError:
    """Return an error at `at` characters after the start of word `index`."""
    word = words[index][at:] if index < len(words) else ""
    return CommandError(number, reason, word, index, at)


def parse_kprobe(words: Sequence[str], kernel: Kernel) -> ProbeDefinition | None:
    """Parse a definition; None if it is not a kprobe's. Raises `CommandError`."""
    head = words[0]
    if head[0] not in "pr" or len(words) < 2:
        return None
    returns = head[0] == "r"
    maxactive = _maxactive(words, returns)
    entry, symbol, place = False, "", words[1]
    offset = number(place)
    if offset is None:
        if "/" in place and ":" in place:
            return None
        symbol, percent, suffix = place.partition("%")
        if percent and suffix != "return":
            raise refused(words, 1, len(symbol), "Invalid probed address suffix")
        returns = returns or bool(percent)
        parts = split_symbol(symbol)
        if parts is None or not 0 <= parts[1] < 1 << 32:
            raise refused(words, 1, 0, BAD_ADDRESS)
        symbol, offset = parts
        found = kernel.on_entry(symbol, offset)
        entry = bool(found)
        if found is False and returns:
            raise refused(words, 1, 0, "Retprobe address must be an function entry")
        count = 1 if ":" in symbol else kernel.symbols(symbol)
        if count > 1:
            raise refused(words, 1, 0, "The symbol is not unique", errno.EADDRNOTAVAIL)
        if not count:
            raise refused(words, 1, 0, BAD_ADDRESS, errno.ENOENT)
        place = symbol + (f"+{offset}" if offset else "")
    else:
        place = f"0x{offset:x}"
    letter = "r" if returns else "p"
    automatic = f"{letter}_{symbol}_{offset}" if symbol else f"{letter}_0x{offset:x}"
    group, event = parse_name(words, KPROBES, automatic)
    source = kernel.source(entry=entry, returns=returns)
    arguments = parse_arguments(words, 2, source)
    return ProbeDefinition(letter, group, event, place, arguments, symbol, offset, maxactive)


def _maxactive(words: Sequence[str], returns: bool) -> int:
    text = words[0][1:].partition(":")[0]
    if not text[:1].isdigit():
        return 0
    if not returns:
        raise refused(words, 0, 1, "Maxactive is not for kprobe")
    found = number(text, 32)
    if not found:
        raise refused(words, 0, 1, "Invalid maxactive number")
    if found > _MOST_ACTIVE:
        raise refused(words, 0, 1, "Maxactive is too big")
    return found


def parse_eprobe(
    words: Sequence[str],
    fields: Callable[[str, str], Mapping[str, Field] | None],
    pointer_size: int,
) -> ProbeDefinition | None:
    """Parse a definition; None if it is not an event probe's. Raises `CommandError`.

    `fields` returns the fields of an event by group and name, None if it does not exist.
    """
    if words[0][0] != "e" or len(words) < 2:
        return None
    attached = re.fullmatch(r"([^./]+)[./]([^./]+)", words[1])
    group, event = parse_name(words, EPROBES, attached[2] if attached is not None else "_")
    if attached is None:
        raise refused(words, 1, 0, "This requires both group and event name to attach")
    known = fields(attached[1], attached[2])
    if known is None:
        raise refused(words, 1, 0, "Attached event does not exist", errno.ENODEV)
    end = words.index("if", 2) if "if" in words[2:] else len(words)
    condition = " ".join(words[end + 1 :])
    if end < len(words) and not condition:
        raise refused(words, len(words), 0, "No filter rule after 'if'")
    source = Source(pointer_size, fields=known)
    arguments = parse_arguments(words[:end], 2, source)
    place = f"{attached[1]}.{attached[2]}"
    return ProbeDefinition("e", group, event, place, arguments, condition=condition)


def parse_arguments(words: Sequence[str], start: int, source: Source) -> tuple[Argument, ...]:
    """Parse the arguments, which begin at word `start`. Raises `CommandError`."""
    found: list[Argument] = []
    for index, word in enumerate(words[start : start + MOST_ARGUMENTS], start):
        try:
            found.append(parse_argument(word, found, source))
        except FetchError as error:
            raise refused(words, index, error.at, error.reason, error.errno) from None
    return tuple(found)


def parse_name(words: Sequence[str], group: str, automatic: str) -> tuple[str, str]:
    """Return group and event; `automatic` is the name of an event without one."""
    head = words[0]
    _, colon, name = head.partition(":")
    if colon:
        at = len(head) - len(name)
        slash = re.search("/", name) or re.search(r"\.", name)
        if slash is not None:
            group = name[: slash.start()]
            _check_group(words, at, group)
            at, name = at + slash.end(), name[slash.end() :]
        if name or slash is None:
            _check_event(words, at, name)
            return group, name
    return group, re.sub(r"[^A-Za-z0-9_]", "_", automatic[: _NAME_LENGTH - 1])


def _check_group(words: Sequence[str], at: int, group: str) -> None:
    if not group:
        raise refused(words, 0, at, "Group name is not specified")
    if len(group) + 1 > _NAME_LENGTH:
        raise refused(words, 0, at, "Group name is too long")
    if not _GROUP.fullmatch(group):
        raise refused(words, 0, at, f"Group {_RULES}")


def _check_event(words: Sequence[str], at: int, event: str) -> None:
    if not event:
        raise refused(words, 0, at, "Event name is not specified")
    if len(event) >= _NAME_LENGTH:
        raise refused(words, 0, at, "Event name is too long")
    if not _NAME.fullmatch(event):
        raise refused(words, 0, at, f"Event {_RULES}")
