"""The functions that can be traced, as columns: names, call sites, states, hits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...core.errors import TracefsError
from ...core.ftrace.filter import FunctionNames, parse_words
from ..present.view import IN_TRACE, FunctionRow, Indices, State

TO_BEGIN_WITH = (
    *("schedule", "wake_up_process", "schedule_timeout", "do_syscall_64", "sys_open"),
    *("do_sys_openat2", "vfs_open", "sys_read", "vfs_read", "vfs_write", "pipe_read"),
    *("pipe_write", "kernel_clone", "do_wait", "do_exit", "mutex_lock", "kfree"),
    *("process_timeout", "call_timer_fn", "do_IRQ"),
)
"""Functions that workloads call often or that lessons use; a kernel need not have them."""

MOST_CANDIDATES = 1000
"""Maximum number of completions of a filter; a kernel has 60,000 functions."""


class FunctionIndex:
    """The columns that change only when a module is loaded or removed."""

    def __init__(
        self,
        names: Sequence[str],
        modules: Sequence[str],
        ips: NDArray[np.uint64],
        prefix: str = "",
        first: Sequence[str] = (),
    ) -> None:
        """Index functions by `ips`, the addresses of their call sites, shape (n,).

        `modules` holds "" for the kernel; `prefix` is the ABI's prefix of names of code;
        `first` has the names of functions to list first.
        """
        self.names = names
        self.modules = modules
        self.ips = ips
        loaded = sorted(set(modules) - {""})
        number = {"": -1} | {name: at for at, name in enumerate(loaded)}
        owner = np.fromiter((number[m] for m in modules), np.int32, len(modules))
        self._filter = FunctionNames(names, owner, loaded, prefix)
        self._prefix = prefix
        self._by_ip = np.argsort(ips, kind="stable")
        self._by_name: NDArray[np.intp] | None = None
        self._by_use = self._rank(owner, first)
        self._matched: tuple[str, NDArray[np.bool_]] | None = None
        self._exact: tuple[str, int | None] = "", None

    def __len__(self) -> int:
        return len(self.names)

    def find(self, ip: int) -> int | None:
        """Return the index of the function with the call site at `ip`."""
        at = int(np.searchsorted(self.ips, np.uint64(ip), sorter=self._by_ip))
        if at < len(self._by_ip) and int(self.ips[self._by_ip[at]]) == ip:
            return int(self._by_ip[at])
        return None

    def exact(self, name: str) -> int | None:
        """Return the index of the first function called `name`, with or without the prefix."""
        if self._exact[0] != name:
            found = None
            for wanted in (name, self._prefix + name):
                if found is None and wanted in self.names:
                    found = self.names.index(wanted)
            self._exact = name, found
        return self._exact[1]

    def sum_by_function(
        self, addresses: NDArray[np.uint64], counts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the sum of `counts` for each function, shape (n,).

        `counts` belong to `addresses`; an address that is not a call site is ignored.
        """
        found = np.zeros(len(self), np.int64)
        if len(self):
            at = np.searchsorted(self.ips, addresses, sorter=self._by_ip)
            rows = self._by_ip[np.minimum(at, len(self) - 1)]
            known = self.ips[rows] == addresses
            np.add.at(found, rows[known], counts[known])
        return found

    def _rank(self, owner: NDArray[np.int32], first: Sequence[str]) -> NDArray[np.intp]:
        """Return the indices with those of `first` first, then the modules', shape (n,)."""
        rank = np.where(owner >= 0, len(first), len(first) + 1)
        places = {name: place for place, name in enumerate(first)}
        for index, name in enumerate(self.names) if places else ():
            place = places.get(name.removeprefix(self._prefix))
            if place is not None and owner[index] < 0:
                rank[index] = place
        return np.argsort(rank, kind="stable")

    def by_use(self) -> NDArray[np.intp]:
        """Return the indices of good starting points, of modules' functions, and of the rest."""
        return self._by_use

    def by_name(self) -> NDArray[np.intp]:
        """Return the indices sorted by name, ignoring the prefix."""
        if self._by_name is None:
            prefix = self._prefix
            keys = sorted(range(len(self.names)), key=lambda i: self.names[i].removeprefix(prefix))
            self._by_name = np.array(keys, np.intp)
        return self._by_name

    def complete(self, text: str) -> list[str]:
        """Return filters that complete the last word of `text`: names, or modules after `:mod:`.

        They are sorted, at most `MOST_CANDIDATES`. A glob and an empty word have no completions.
        """
        start = text.rfind(" ") + 1
        start += text[start : start + 1] == "!"
        word = text[start:]
        name, colon, _ = word.partition(":")
        found: Iterable[str]
        if colon:
            found = (f"{name}:mod:{module}" for module in set(self.modules) if module)
        elif not word or any(sign in word for sign in "*?["):
            found = ()
        elif self._prefix and not word.startswith(self._prefix):
            found = (each.removeprefix(self._prefix) for each in self.names)
        else:
            found = self.names
        matching = sorted({each for each in found if each.startswith(word)})
        return [text[:start] + each for each in matching[:MOST_CANDIDATES]]

    def match(self, pattern: str) -> NDArray[np.bool_]:
        """Return which functions `pattern` (see `as_glob`) matches, shape (n,).

        The grammar is that of set_ftrace_filter, including `:mod:`. A word with `!` removes
        functions from those matched before it; a first word with `!` removes them from all.
        """
        if self._matched is not None and self._matched[0] == pattern:
            return self._matched[1]
        hit = np.zeros(len(self.names), np.bool_)
        try:
            for number, word in enumerate(parse_words(as_glob(pattern))):
                if word.remove and number == 0:
                    hit[:] = True
                hit[self._filter.select(word)] = not word.remove
        except TracefsError:
            hit[:] = False
        hit.flags.writeable = False
        self._matched = pattern, hit
        return hit


@dataclass(frozen=True, slots=True, eq=False)
class FunctionTable:
    """The functions at one moment; the arrays have shape (n,)."""

    names: FunctionIndex
    states: NDArray[np.uint8]
    """A `State` for each function."""
    filtered: NDArray[np.bool_]
    """Whether set_ftrace_filter names the function."""
    hits: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Calls of each function; shape (0,) if they are not counted."""
    counted: str = IN_TRACE
    """The calls that `hits` counts: `IN_TRACE` or `PROFILED`."""

    def __len__(self) -> int:
        return len(self.names)

    def row(self, index: int) -> FunctionRow:
        """Return the function at `index`."""
        return FunctionRow(
            self.names.names[index],
            self.names.modules[index],
            State(int(self.states[index])),
            int(self.hits[index]) if len(self.hits) else 0,
            self.ip(index),
        )

    def ip(self, index: int) -> int:
        """Return the address of the call site of the function at `index`."""
        return int(self.names.ips[index])

    def find(self, ip: int) -> int | None:
        """Return the index of the function whose call site is at `ip`."""
        return self.names.find(ip)

    def chosen(self, index: int) -> bool:
        """Return whether set_ftrace_filter names the function at `index`."""
        return bool(self.filtered[index])

    def match(self, pattern: str, order: str) -> NDArray[np.intp]:
        """Return the indices that `pattern` matches, in `order`; an exact name comes first."""
        hit = self.names.match(pattern)
        if order in ("name", "use"):
            sorted_ = self.names.by_name() if order == "name" else self.names.by_use()
            shown = sorted_[hit[sorted_]]
        else:
            shown = np.flatnonzero(hit)
        if order == "state":
            shown = shown[np.argsort(-self.states[shown].astype(np.int16), kind="stable")]
        elif order == "hits" and len(self.hits):
            shown = shown[np.argsort(-self.hits[shown], kind="stable")]
        if (index := self.exact(pattern)) is not None:
            exact = shown == index
            shown = np.concatenate([shown[exact], shown[~exact]])
        return shown

    def as_filter(self, pattern: str) -> str:
        """Return words for set_ftrace_filter that select the functions matching `pattern`."""
        words = as_glob(pattern)
        # A first `!` would have no effect: an empty filter has nothing to remove.
        return f"* {words}" if words.startswith("!") else words

    def exact(self, pattern: str) -> int | None:
        """Return the index of the function whose whole name is `pattern`."""
        name = pattern.strip()
        return self.names.exact(name) if name else None

    def complete(self, text: str) -> Sequence[str]:
        """Return filters that complete `text`: see `FunctionIndex.complete`."""
        return self.names.complete(text)

    def position(self, shown: Indices, index: int) -> int | None:
        """Return the position of `index` in `shown`."""
        at = np.flatnonzero(np.asarray(shown) == index)
        return int(at[0]) if len(at) else None

    def traced(self) -> int:
        """Return the number of traced functions."""
        return int(np.count_nonzero(self.states == State.TRACED))


def as_glob(pattern: str) -> str:
    """Return `pattern` in the grammar of set_ftrace_filter; plain text matches inside a name."""
    return " ".join(_word(word) for word in pattern.split()) or "*"


def _word(text: str) -> str:
    sign = "!" if text.startswith("!") else ""
    glob, colon, rest = text[len(sign) :].partition(":")
    if not any(c in glob for c in "*?["):
        glob = f"*{glob}*" if glob else "*"
    return sign + glob + colon + rest
