"""A kernel's tree of modules, as in /lib/modules/RELEASE: files by name, and what each needs.

depmod's index is not needed, and a package that was only unpacked has none: a module names
what it depends on (`depends=` in `.modinfo`), and is found by the name of its file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from ..errors import UsageError

MARKS = ("modules.dep", "modules.order", "modules.builtin")
"""Files at the top of a tree."""

SUFFIX = ".ko"


class ModuleTree:
    """The modules in the folder `top`."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self._paths: dict[str, Path] = {}
        for folder, _, files in os.walk(top):
            for file in files:
                name, dot, _ = file.partition(SUFFIX)
                if dot:
                    self._paths.setdefault(_plain(name), Path(folder, file))

    @classmethod
    def around(cls, path: Path) -> ModuleTree | None:
        """Return the tree that contains the module `path`, or None."""
        tops = (each for each in path.parents if any((each / mark).exists() for mark in MARKS))
        top = next(tops, None)
        return None if top is None else cls(top)

    @classmethod
    def beside(cls, kernel: Path) -> ModuleTree | None:
        """Return the tree of `kernel`, installed as boot/vmlinuz-RELEASE, or None."""
        _, dash, release = kernel.name.partition("-")
        top = kernel.absolute().parent.parent / "lib" / "modules" / release
        return cls(top) if dash and top.is_dir() else None

    def __iter__(self) -> Iterator[Path]:
        """Yield the file of each module, sorted by name."""
        return (self._paths[name] for name in sorted(self._paths))

    def path(self, name: str) -> Path:
        """Return the file of module `name`. Raises `UsageError`."""
        found = self._paths.get(_plain(name))
        if found is None:
            raise UsageError(f"no module '{name}' in {self.top}")
        return found

    def order(self, name: str, needs: Callable[[Path], list[str]]) -> list[Path]:
        """Return module `name` and all that it needs, in the order of loading.

        `needs` returns the names that a file depends on. Raises `UsageError` for a module that
        is missing, and for one that needs itself.
        """
        found: dict[str, Path] = {}
        under_way: list[str] = []

        def add(name: str) -> None:
            plain = _plain(name)
            if plain in found:
                return
            if plain in under_way:
                raise UsageError(f"module '{name}' depends on itself")
            under_way.append(plain)
            path = self.path(name)
            for each in needs(path):
                add(each)
            under_way.pop()
            found[plain] = path

        add(name)
        return list(found.values())


def _plain(name: str) -> str:
    return name.replace("-", "_")
