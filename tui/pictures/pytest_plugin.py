"""pytest fixtures for other projects: pictures of the console, machines and their shell.

Wherever dynftrace is installed, pytest loads this module by an entry point (`pytest11`). So
it imports only pytest, and the rest when a test needs it. Other projects import
`dynftrace.testing`, which has the same names.

A picture is compared with the SVG file of the same name in the folder `pictures` beside the
test. It does not depend on the terminal or the host. Only `--update-pictures` changes that
file. Without it, a picture that differs is written to NAME.new.svg beside the file.
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
"""Maximum number of characters of a test's name in a file name."""

UPDATE = "--update-pictures"

_OWNERS = pytest.StashKey[dict[Path, str]]()
"""The test that each picture belongs to, in this run."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes pictures instead of comparing them."""
    group = parser.getgroup("dynftrace", "pictures of the dynftrace console")
    group.addoption(
        UPDATE,
        action="store_true",
        help="write the pictures of dynftrace_picture instead of comparing with them",
    )


def open_machine(
    arch: str | None = None, *, modules: Iterable[str] = (), **fields: object
) -> Session:
    """Open a machine of port `arch`; `fields` are fields of `MachineSpec`.

    Without `arch`, the port is the one that `dynftrace` uses without `--arch`. `modules` is a
    name or path, or several of them. Raises what `Session.open` raises, `UsageError` for an
    unknown port, and `TypeError` for an unknown field.
    """
    from ... import arches
    from ...core.session.session import MachineSpec, Session

    names = (modules,) if isinstance(modules, str) else tuple(modules)
    spec = MachineSpec(modules=names, **fields)  # type: ignore[arg-type]
    return Session.open(arches.load(arches.DEFAULT if arch is None else arch), spec)


def file_name(name: str) -> str:
    """Return a file name, without suffix, for the test `name`.

    A test's parameters follow a `-`. In a name that is too long or has characters other
    than ASCII letters, digits, `_`, `.` and `-`, these are removed, and a hash of the whole
    name keeps different names apart.
    """
    plain = name.replace("[", "-", 1).removesuffix("]")
    as_is = re.fullmatch(r"\w[\w.-]*(\[[\w.-]+\])?", name, re.ASCII)
    # A new picture of the test NAME is written to NAME.new.
    if as_is and len(plain) <= LONGEST and not plain.endswith(".new"):
        return plain
    from hashlib import sha256

    words = re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII)[:LONGEST].strip("-.")
    number = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{words}-{number}".lstrip("-")


class Pictures:
    """The fixture `dynftrace_picture` of one test: call it to compare a picture."""

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
        """Fail unless the console, after `commands` (one a line), looks like the picture.

        `screen`, `size`, `theme`, `arch`, `cpus` and `modules` are as for `dynftrace
        screenshot`. The picture is pictures/NAME.svg beside the test. `name` is by default
        the test's; a second picture of a test ends in -2.
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
        """Compare `made` with the picture in `path`; return an error, or "".

        Write `path` with `--update-pictures`; without it, a picture that differs is written
        beside it. Raises `OSError` and `DynftraceError` if files cannot be read or written.
        """
        from ..files.whole_file import write_whole

        new = path.with_name(f"{path.stem}.new.svg")
        old = path.read_text(encoding="utf-8", errors="replace") if path.exists() else None
        update = self._config.getoption(UPDATE)
        if made != old:
            path.parent.mkdir(exist_ok=True)
            write_whole(path if update else new, made)
        if made == old or update:
            new.unlink(missing_ok=True)
            return ""
        wrong = "does not exist" if old is None else "differs from the console"
        advice = f"if {self._shown(new)} is right, run `pytest {UPDATE}`"
        return f"{self._shown(path)} {wrong}: {advice}"

    def _claim(self, name: str | None) -> Path:
        """Return the file of the test's next picture; fail if it belongs to another test."""
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
            pytest.fail(f"{self._shown(path)} belongs to {owner}: choose another name")
        return path

    def _shown(self, path: Path) -> str:
        """Return `path` relative to the folder in which pytest was started."""
        start = self._config.invocation_params.dir
        return str(path.relative_to(start) if path.is_relative_to(start) else path)


def _draw(
    open_session: Callable[[], Session], commands: str, screen: str, size: str, theme: str | None
) -> str:
    """Like `take_picture`, but ignore the caller's NO_COLOR, and work inside an event loop too."""
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
    """The fixture `dynftrace_shell` of one test: call it to execute commands."""

    def __init__(self) -> None:
        self._default: Session | None = None
        self._shells: dict[Session, Shell] = {}

    def __call__(self, commands: str, session: Session | None = None) -> str:
        """Return the output of `commands` in `session`, or in a machine of the test's own.

        The first call opens that machine with the defaults of `open_machine`. Raises
        `AssertionError` with the command's message if a command fails.
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
            raise AssertionError(f"`{commands}` failed: {error}")
        return outcome.output


@pytest.fixture
def dynftrace_picture(request: pytest.FixtureRequest) -> Pictures:
    """Compare a picture of the console with the file beside the test."""
    return Pictures(request)


@pytest.fixture
def dynftrace_session() -> Callable[..., Session]:
    """Open a machine, given an architecture and fields of MachineSpec; return its Session."""
    return open_machine


@pytest.fixture
def dynftrace_shell() -> ShellCommands:
    """Execute shell commands that must succeed; return their output."""
    return ShellCommands()
