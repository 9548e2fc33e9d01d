"""A kernel's tree of modules, as in /lib/modules/RELEASE: files by name, and their dependencies.

depmod's index is not needed, and a package has none: a module names what it depends on
(`depends=` in `.modinfo`), and its file has its name. The tree may be in a folder, or in the
package that has the kernel.
"""

from __future__ import annotations

import mmap
import os
import re
import shutil
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp

from ..errors import ImageError, UsageError
from ..payload import package, unpack
from ..payload.compression import CorruptError, MissingError

MARKS = ("modules.dep", "modules.order", "modules.builtin")
"""Files at the top of a tree."""

SUFFIX = ".ko"

_NEEDS = re.compile(rb"\0depends=([^\0]{0,4096})\0")
"""The dependencies of a module, in its `.modinfo`."""


class ModuleTree:
    """The modules in the folder `top`."""

    def __init__(self, top: Path) -> None:
        self.top = top
        # A tree has thousands of files: a `Path` is made of those that are asked for.
        self._paths: dict[str, str] = {}
        for folder, _, files in os.walk(top):
            for file in files:
                name, dot, _ = file.partition(SUFFIX)
                if dot:
                    self._paths.setdefault(_plain(name), os.path.join(folder, file))

    @classmethod
    def around(cls, path: Path) -> ModuleTree | None:
        """Return the tree that contains the module `path`, or None."""
        tops = (each for each in path.parents if any((each / mark).exists() for mark in MARKS))
        top = next(tops, None)
        return None if top is None else cls(top)

    @classmethod
    def beside(cls, kernel: Path) -> ModuleTree | None:
        """Return the tree of `kernel`, or None.

        `kernel` is installed as boot/vmlinuz-RELEASE, or in its tree, lib/modules/RELEASE/vmlinuz.
        The tree of a package is the one in it.
        """
        if is_package(kernel):
            return PackageTree(kernel)
        if kernel.absolute().parent.parent.name == "modules":
            return cls(kernel.absolute().parent)
        _, dash, release = kernel.name.partition("-")
        top = kernel.absolute().parent.parent / "lib" / "modules" / release
        return cls(top) if dash and top.is_dir() else None

    def __iter__(self) -> Iterator[Path]:
        """Yield the file of each module, sorted by name."""
        return (Path(self._paths[name]) for name in sorted(self._paths))

    def __contains__(self, name: str) -> bool:
        return _plain(name) in self._paths

    def path(self, name: str) -> Path:
        """Return the file of module `name`. Raises `UsageError`."""
        found = self._paths.get(_plain(name))
        if found is None:
            raise UsageError(f"no module '{name}' in {self.top}")
        return Path(found)

    def order(self, name: str, needs: Callable[[Path], list[str]]) -> list[Path]:
        """Return module `name` and its dependencies, in the order of loading.

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


class PackageTree(ModuleTree):
    """The modules in a package.

    Its data is one compressed stream. So it is read to the end once, for the names and dependencies
    of all modules, and again for each requested module with its dependencies. These are kept as
    files in a temporary folder.
    """

    def __init__(self, top: Path) -> None:
        """Read the package `top`. Raises `ImageError`."""
        self.top = top
        folder = mkdtemp(prefix="dynftrace-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._needs: dict[str, list[str]] = {}
        self._paths = {}
        for name, file, content in self._modules():
            data = unpack.innermost(str(top), content()).content
            found = _NEEDS.search(data)
            words = found[1].decode("ascii", "replace").split(",") if found else []
            self._needs.setdefault(_plain(name), [_plain(word) for word in words if word])
            self._paths.setdefault(_plain(name), os.path.join(folder, file))

    def path(self, name: str) -> Path:
        """Return the file of module `name`. Raises `UsageError` and `ImageError`."""
        found = super().path(name)
        if not found.exists():
            self._unpack(self._closure(_plain(name)))
        return found

    def _closure(self, name: str) -> set[str]:
        """Return `name` and those of its dependencies that the package has."""
        found: set[str] = set()
        left = [name]
        while left:
            each = left.pop()
            if each in self._needs and each not in found:
                found.add(each)
                left += self._needs[each]
        return found

    def _unpack(self, wanted: set[str]) -> None:
        """Make files of the modules `wanted` that are not unpacked. Raises `ImageError`."""
        left = {name for name in wanted if not os.path.exists(self._paths[name])}
        room = unpack.LIMIT
        for name, file, content in self._modules():
            if _plain(name) not in left or file != Path(self._paths[_plain(name)]).name:
                continue
            left.remove(_plain(name))
            data = content()
            room -= len(data)
            if room < 0:
                raise ImageError(
                    str(self.top), f"its modules have more than {unpack.LIMIT:#x} bytes"
                )
            Path(self._paths[_plain(name)]).write_bytes(data)
            if not left:
                return

    def _modules(self) -> Iterator[tuple[str, str, Callable[[], bytearray]]]:
        """Yield the modules as `package.modules_in`. Raises `ImageError`."""
        try:
            with self.top.open("rb") as file:
                content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            yield from package.modules_in(memoryview(content), unpack.LIMIT)
        except (CorruptError, MissingError) as error:
            raise ImageError(str(self.top), str(error)) from error
        except (OSError, ValueError) as error:
            raise ImageError(str(self.top), f"cannot be read: {error}") from error


def is_package(path: Path) -> bool:
    """Return whether the file at `path` is a package."""
    try:
        with path.open("rb") as file:
            return file.read(len(package.MAGIC)) == package.MAGIC
    except OSError:
        return False


def _plain(name: str) -> str:
    return name.replace("-", "_")
