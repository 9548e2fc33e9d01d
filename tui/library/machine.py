"""A machine for Python programs: a session with its files, its trace and its views."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path as FilePath
from types import TracebackType
from typing import Self

from ... import arches
from ...core.errors import DynftraceError, TracefsError, UsageError
from ...core.session.session import MachineSpec, Session
from ...core.shell.shell import Shell
from ...core.tracefs.tree import Directory, File
from ...core.views.call_site import find_sites
from ...core.views.site_table import TableRow, site_rows
from .shown import Path, Picture, Site, Trace


class CommandError(DynftraceError):
    """A shell command failed; the message is its standard error output."""

    def __init__(self, command: str, status: int, error: str) -> None:
        super().__init__(error.strip() or f"status {status}")
        self.command = command
        self.status = status


class Files(MutableMapping[str, str]):
    """The files of tracefs, by path below its mount point: `files["current_tracer"] = "function"`.

    Reading and writing do what `cat` and `echo … >` do. A missing file is a `KeyError`; what the
    kernel refuses is a `TracefsError`. Iterating gives the paths of all files.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def __getitem__(self, path: str) -> str:
        history = self._session.history
        with self._session.lock:
            node = self._node(path)
            if not (isinstance(node, File) and node.consumes):
                return self._read(path)
            command = f"cat {shlex.quote(path)}"
            history.line(command)
            history.before()
            try:
                return self._read(path)
            finally:
                history.note(command)

    def _read(self, path: str) -> str:
        try:
            return self._session.boot.tracefs.read(path)
        except TracefsError as error:
            raise TracefsError(error.errno, f"{path}: {error}") from error

    def __setitem__(self, path: str, text: str) -> None:
        self._write(path, text, append=False)

    def append(self, path: str, text: str) -> None:
        """Write without emptying the file first, as `echo TEXT >> PATH` does."""
        self._write(path, text, append=True)

    def _write(self, path: str, text: str, *, append: bool) -> None:
        """Write as `echo` does, and record it, so that `back` can undo it."""
        session = self._session
        with session.lock:
            self._node(path)
            arrow = ">>" if append else ">"
            command = f"echo {shlex.quote(text)} {arrow} {shlex.quote(path)}"
            session.history.line(command)
            session.history.before()
            try:
                session.boot.tracefs.write(path, f"{text}\n", append)
            except TracefsError as error:
                raise TracefsError(error.errno, f"{path}: {error}") from error
            finally:
                session.history.note(command)

    def __delitem__(self, path: str) -> None:
        raise TypeError("files of tracefs cannot be deleted")

    def __iter__(self) -> Iterator[str]:
        with self._session.lock:
            return iter(list(_paths(self._session.boot.tracefs.root, "")))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, path: object) -> bool:
        tree = self._session.boot.tracefs
        return isinstance(path, str) and tree.exists(path) and not tree.is_dir(path)

    def _node(self, path: str) -> object:
        try:
            return self._session.boot.tracefs.node(path)
        except TracefsError:
            raise KeyError(path) from None


def _paths(folder: Directory, above: str) -> Iterator[str]:
    for name, node in folder.entries.items():
        if isinstance(node, Directory):
            yield from _paths(node, f"{above}{name}/")
        else:
            yield f"{above}{name}"


class TracedMachine:
    """A booted machine; made by `dynftrace.open`. A context manager.

    Every method may raise a `DynftraceError`, whose text is one sentence. Several threads may
    use one machine; calls wait for each other.
    """

    def __init__(self, session: Session) -> None:
        """Use an open `session`."""
        self.session = session
        """The session: access to all of `core`, whose API may change between versions."""
        self.files = Files(session)
        self._shell = Shell(session)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.session.stop()

    @property
    def arch(self) -> str:
        """Name of the port."""
        return self.session.port.facts.name

    @property
    def now(self) -> int:
        """Virtual time in ns."""
        return self.session.now

    def sh(self, commands: str) -> str:
        """Execute commands of the tracefs shell; return their output.

        Raises `CommandError` if the last one fails, or one before it writes an error.
        """
        outcome = self._shell.execute(commands)
        if outcome.status or outcome.error:
            raise CommandError(commands, outcome.status, outcome.error)
        return outcome.output

    def run(self, workload: str, count: int = 1) -> None:
        """Run a workload of the guest to its end; `workloads` has the names."""
        self.sh(f"run {shlex.quote(workload)} {count}")

    def workloads(self) -> Sequence[str]:
        """Return the names that `run` takes."""
        return self.session.workloads()

    def trace(self) -> Trace:
        """Return the trace as it is now."""
        with self.session.lock:
            return Trace(self.session.boot.array.text())

    def site(self, function: str) -> Site:
        """Return the call site of a function: `NAME`, `NAME [MODULE]` or `0xIP`.

        Raises `UsageError` if no function of that name has a call site.
        """
        return Site(self.session.call_site(self._ip(function)))

    def path(self, function: str) -> Path:
        """Return the path from the call site of a function to the tracer."""
        return Path(self.session.call_path(self._ip(function)))

    def sites(self) -> list[TableRow]:
        """Return all call sites, in the order of available_filter_functions."""
        with self.session.lock:
            boot = self.session.boot
            return site_rows(boot.ftrace, boot.machine.memory)

    def _ip(self, function: str) -> int:
        session = self.session
        with session.lock:
            prefix = session.port.facts.abi.text_prefix
            found = find_sites(session.boot.ftrace.records, function, prefix)
            found = [*found, *session.unfound_sites(function)]
        if not found:
            raise UsageError(f"{function}: no function of that name has a call site")
        return found[0]

    def picture(
        self, screen: str = "main", *, size: str = "120x40", theme: str | None = None
    ) -> Picture:
        """Return a picture of the console on this machine.

        `screen` is a screen of `dynftrace screenshot`. `size` is columns and rows.
        """
        from concurrent.futures import ThreadPoolExecutor

        from ..pictures.picture import parse_size, take_picture

        cells = parse_size(size)
        # In a thread of its own: a notebook's thread already runs an event loop.
        with ThreadPoolExecutor(1) as pool:
            made = pool.submit(take_picture, lambda: self.session, "", screen, cells, theme)
            return Picture(made.result())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> object:
        return {**self.picture(size="100x30")._repr_mimebundle_(), "text/plain": repr(self)}

    def __repr__(self) -> str:
        return f"<{self.arch} machine at {self.now} ns>"


def open_machine(
    arch: str | None = None,
    *,
    kernel: str | FilePath | None = None,
    modules: str | Sequence[str] = (),
    cpus: int = 2,
    patch: str | None = None,
    nop: str | None = None,
    discovery: str | None = None,
    stop_at: str | None = None,
) -> TracedMachine:
    """Boot a machine; the arguments are those of the options of `dynftrace`.

    `modules` are names or paths; a single one may be given as a string.
    Raises `UsageError`, `ImageError`, `ModuleError` and `GuestError`.
    """
    if not 1 <= cpus <= 8:
        raise UsageError(f"invalid number of CPUs {cpus}: valid numbers are 1-8")
    name, image = arches.build(arch, None if kernel is None else str(kernel))
    spec = MachineSpec(
        kernel=None if image is None else FilePath(image),
        modules=(modules,) if isinstance(modules, str) else tuple(modules),
        cpus=cpus,
        patch=patch,
        nop=nop,
        discovery=discovery,
        stop_at=stop_at,
    )
    return TracedMachine(Session.open(arches.load(name), spec))
