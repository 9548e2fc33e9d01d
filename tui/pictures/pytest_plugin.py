"""Fixtures of pytest: pictures of the console, machines and their shell, for other projects.

pytest loads this wherever dynftrace is installed, by an entry point of the group
`pytest11`; so it imports pytest alone, and the rest when a test asks for it. What
others import is `dynftrace.testing`, which has the same names.

A picture is compared with the SVG file of its name in the folder `pictures` beside the
test. Nothing of the terminal or the host is in it. Only `--update-pictures` changes that
file; without it what differs is left beside as NAME.new.svg, to be looked at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ...core.session.session import Session
    from ...core.shell.shell import Shell

FOLDER = "pictures"

LONGEST = 100
"""Characters of a test's name that a file name has at most."""

UPDATE = "--update-pictures"

_OWNERS = pytest.StashKey[dict[Path, str]]()
"""Which test has which picture, in this run."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that has pictures written instead of compared."""
    group = parser.getgroup("dynftrace", "pictures of the dynftrace console")
    group.addoption(
        UPDATE,
        action="store_true",
        help="write the pictures of dynftrace_picture instead of comparing with them",
    )


def open_machine(
    arch: str | None = None, *, modules: Iterable[str] = (), **fields: object
) -> Session:
    """Open a machine of port `arch`; `fields` are those of `core.session.MachineSpec`.

    Without `arch`, the port is the one that `dynftrace` uses without `--arch`.
    `modules` are names or paths, one may stand alone. Raises as `Session.open`
    does, `UsageError` for a port that does not exist, and `TypeError` for a field
    that does not.
    """
    from ... import arches
    from ...core.session.session import MachineSpec, Session

    names = (modules,) if isinstance(modules, str) else tuple(modules)
    spec = MachineSpec(modules=names, **fields)  # type: ignore[arg-type]
    return Session.open(arches.load(arches.DEFAULT if arch is None else arch), spec)


def file_name(name: str) -> str:
    """`name` as that of a file, without its suffix.

    The parameters of a test follow a `-`. What has other characters than letters of
    ASCII, digits, `_`, `.` and `-`, or is too long, gets a number that tells it from
    what would be the same without them.
    """
    plain = name.replace("[", "-", 1).removesuffix("]")
    as_is = re.fullmatch(r"\w[\w.-]*(\[[\w.-]+\])?", name, re.ASCII)
    # NAME.new is what a picture beside NAME is called.
    if as_is and len(plain) <= LONGEST and not plain.endswith(".new"):
        return plain
    from hashlib import sha256

    words = re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII)[:LONGEST].strip("-.")
    number = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{words}-{number}".lstrip("-")


class Pictures:
    """What `dynftrace_picture` is in one test: call it to compare a picture."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._config = request.config
        self._test = request.node.nodeid
        own = (pytest.Class, pytest.Item)
        self._name = ".".join(n.name for n in request.node.listchain() if isinstance(n, own))
        self._folder = request.path.parent / FOLDER
        self._taken: set[str] = set()

    def __call__(
        self,
        commands: str = "",
        *,
        screen: str = "main",
        size: str = "120x40",
        theme: str | None = None,
        arch: str | None = None,
        cpus: int = 2,
        modules: Iterable[str] = (),
        name: str | None = None,
    ) -> None:
        """Fail unless the console shows after `commands`, one a line, what the picture has.

        `screen`, `size`, `theme`, `arch`, `cpus` and `modules` are what `dynftrace screenshot`
        takes. The picture is pictures/NAME.svg beside the test; `name` is the test's if
        not given, and a second one of a test ends in -2.
        """
        __tracebackhide__ = True
        from ...core.errors import DynftraceError

        path = self._claim(name)
        try:
            machine = partial(open_machine, arch, modules=modules, cpus=cpus)
            made = _draw(machine, commands, screen, size, theme)
            wrong = self._compare(path, made)
        except DynftraceError as error:
            wrong = str(error)
        except OSError as error:
            wrong = f"{error.filename or path}: {error.strerror or error}"
        if wrong:
            pytest.fail(wrong)

    def _compare(self, path: Path, made: str) -> str:
        """What is wrong with the picture in `path`, or nothing; writes it, or the new one.

        Raises `OSError` and `DynftraceError` where files cannot be read or written.
        """
        from ..files.whole_file import write_whole

        new = path.with_name(f"{path.stem}.new.svg")
        there = path.read_text(encoding="utf-8", errors="replace") if path.exists() else None
        update = self._config.getoption(UPDATE)
        if made != there:
            path.parent.mkdir(exist_ok=True)
            write_whole(path if update else new, made)
        if made == there or update:
            new.unlink(missing_ok=True)
            return ""
        old, found = self._shown(path), self._shown(new)
        if there is None:
            what = f"there is no {old}; what the console shows is {found}: look at it"
        else:
            what = f"the console no longer shows {old} but {found}: look at both"
        return f"{what}, and if the new one is right run `pytest {UPDATE}`"

    def _claim(self, name: str | None) -> Path:
        """The file of the next picture, which no other test has."""
        __tracebackhide__ = True
        base = file_name(self._name if name is None else name)
        label, number = base, 1
        while label in self._taken:
            number += 1
            label = f"{base}-{number}"
        self._taken.add(label)
        path = self._folder / f"{label}.svg"
        owner = self._config.stash.setdefault(_OWNERS, {}).setdefault(path, self._test)
        if owner != self._test:
            pytest.fail(f"{self._shown(path)} is the picture of {owner}; give this one a name")
        return path

    def _shown(self, path: Path) -> str:
        """`path` as one would type it where pytest was started."""
        start = self._config.invocation_params.dir
        return str(path.relative_to(start) if path.is_relative_to(start) else path)


def _draw(
    open_session: Callable[[], Session], commands: str, screen: str, size: str, theme: str | None
) -> str:
    """As `take_picture`, without the caller's colours, and also within an event loop."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    with pytest.MonkeyPatch.context() as environment:
        # Textual reads its variables when it is imported, and NO_COLOR for each app.
        for name in list(os.environ):
            if name == "NO_COLOR" or name.startswith("TEXTUAL_"):
                environment.delenv(name)
        from .picture import parse_size, take_picture

        asked = (open_session, commands, screen, parse_size(size), theme)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return take_picture(*asked)
        with ThreadPoolExecutor(1) as other:
            return other.submit(take_picture, *asked).result()


class ShellCommands:
    """What `dynftrace_shell` is in one test: call it to execute commands."""

    def __init__(self) -> None:
        self._default: Session | None = None
        self._shells: dict[Session, Shell] = {}

    def __call__(self, commands: str, session: Session | None = None) -> str:
        """The output of `commands` in `session`, or in a machine of the test's own.

        That is the default one of `open_machine`, opened by the first call. Raises
        `AssertionError` where a command fails, in the command's words.
        """
        __tracebackhide__ = True
        from ...core.shell.shell import Shell

        if session is None:
            session = self._default = self._default or open_machine()
        shell = self._shells.get(session)
        if shell is None:
            shell = self._shells[session] = Shell(session)
        outcome = shell.execute(commands)
        if outcome.status or outcome.error:
            error = outcome.error.strip() or f"status {outcome.status}"
            raise AssertionError(f"`{commands}` fails: {error}")
        return outcome.output


@pytest.fixture
def dynftrace_picture(request: pytest.FixtureRequest) -> Pictures:
    """Compare a picture of the console with the one beside the test."""
    return Pictures(request)


@pytest.fixture
def dynftrace_session() -> Callable[..., Session]:
    """Open a machine: an architecture, and fields of MachineSpec; returns its Session."""
    return open_machine


@pytest.fixture
def dynftrace_shell() -> ShellCommands:
    """Execute shell commands that must succeed; returns their output."""
    return ShellCommands()
