"""Clients of a mount as tasks of the guest, which repeat their forks and execs.

The host's kernel reports forks and execs through the process events connector. Guest tasks with
the same pids repeat those of clients and of their children: a fork calls kernel_clone(), an exec
do_execve(). So a client can filter by its own pid, and sees that pid in the trace. This needs root,
and a guest with the function run_client(); without either, clients have no tasks. The guest also
makes the directories of the events that clients define, and a task with the client's pid calls
chdir(2) if the client enters a directory of the mount.

Sources: Documentation/driver-api/connector.rst, include/uapi/linux/cn_proc.h.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ...core.errors import DynftraceError, GuestError
from ...core.ftrace.records import Flag
from ...core.machine.requests import Client
from ...core.session.session import Session

MOST = 64
"""Maximum number of steps to repeat at once; older ones are lost."""

_LIMIT_NS = 100_000_000
"""Virtual ns that one step may take."""

_FUNCTION, _CHDIR = "run_client", "client_chdir"
MOUNT_TYPE = " fuse.tracefs "
"""Type of a mount, as mountinfo has it."""

_PROGRAMS = {"ping": 2, "ls": 3}
"""The guest's programs, with their numbers; number 1 stands for all others."""

_CONNECTOR, _CN_PROC, _LISTEN, _DONE = 11, 1, 1, 3
_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
_MESSAGE = struct.Struct("=IIIIHH")  # struct cn_msg
_EVENT = struct.Struct("=IIQIIII")  # struct proc_event: what, cpu, time, and four pids
_FORK, _EXEC, _EXIT = 1, 2, 0x8000_0000


@dataclass(slots=True)
class Step:
    """An action of a client: a fork of `child`, unless that is 0, then an exec of a program."""

    pid: int
    child: int
    executed: bool = False

    @property
    def program(self) -> int:
        """Number of the guest's program that stands for the executed one; 0 without an exec."""
        return _PROGRAMS.get(_comm(self.child or self.pid), 1) if self.executed else 0


class Clients:
    """Repeats the clients' actions in the guest; call it while the machine does not run."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._socket = _connected()
        self._known: set[int] = set()
        """Processes that are clients."""
        self._ended: set[int] = set()
        self._entered: dict[int, str] = {}
        """Directories of the mount that clients are about to enter, by pid."""
        self._entering = threading.Lock()
        """Held while an entry of `_entered` changes."""

    def close(self) -> None:
        """Stop listening."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    @contextmanager
    def served(self, pid: int) -> Iterator[None]:
        """Repeat the clients' actions, then serve the process `pid` within the context."""
        requests = self._session.boot.machine.requests
        if pid > 0 and self._socket is not None:
            self._known.add(pid)
            requests.client = Client(pid, _comm(pid))
        self.repeat()
        with self._entering:
            self._entered.pop(pid, None)  # it was not chdir(2) that asked
        try:
            yield
            if not self._session.boot.ftrace.patcher.held:
                self._session.boot.array.event_directories.update()
        finally:
            requests.client = None

    def enters(self, pid: int, path: str) -> None:
        """Note that a client asks for the right to enter the directory `path` of the mount.

        Called at any time, by any thread.
        """
        with self._entering:
            self._entered[pid] = path

    def repeat(self) -> None:
        """Have guest tasks repeat the clients' actions since the last call."""
        steps = self._steps()
        array = self._session.boot.array
        # The guest's task ends after each step, but its pid stays in use while the client lives.
        array.outside = frozenset(self._known | self._ended)
        self._execute(steps)
        self._change_directories()
        array.outside = frozenset(self._known)
        for pid in self._ended:
            array.follow_task(pid, 0)
        self._ended.clear()

    def _execute(self, steps: list[Step]) -> None:
        function = self._session.boot.kallsyms.address(_FUNCTION)
        if not steps or function is None or not self._seen():
            return
        requests = self._session.boot.machine.requests
        for step in steps[-MOST:]:
            try:
                arguments = (step.pid, step.child, step.program, _nice(step.child or step.pid))
                requests.call(function, arguments, _comm(step.pid), _LIMIT_NS)
            except GuestError:
                self.close()  # the machine has stopped, or has no room for tasks
                return
            except DynftraceError:
                return

    def _change_directories(self) -> None:
        """Have guest tasks call chdir(2) for the clients that have entered a directory."""
        for pid, path in list(self._entered.items()):
            directory = _directory(pid, path)
            if directory is None:
                continue
            with self._entering:
                if self._entered.get(pid) == path:  # the client may be about to enter the next
                    del self._entered[pid]
            function = self._session.boot.kallsyms.address(_CHDIR)
            if function is None or self._socket is None or not self._seen():
                continue
            requests, blocks = (
                self._session.boot.machine.requests,
                self._session.boot.array.event_files.blocks,
            )
            before, place = requests.client, blocks.place(os.fsencode(directory) + b"\0")
            requests.client = Client(pid, _comm(pid))
            try:
                requests.call_as_client(function, (place,), _comm(pid))
            except DynftraceError:
                return
            finally:
                requests.client = before
                blocks.free(place)

    def _seen(self) -> bool:
        """Return whether anything is traced, and the machine can run."""
        boot = self._session.boot
        if boot.ftrace.patcher.held or not boot.machine.alive:
            return False
        return bool(boot.ftrace.records.flagged(Flag.ENABLED).any()) or boot.array.writing

    def _steps(self) -> list[Step]:
        """Return the clients' actions since the last call."""
        steps: list[Step] = []
        forked: dict[int, Step] = {}
        for what, pid, group, other, other_group in self._events():
            if what == _FORK and group in self._known and other == other_group:
                self._known.add(other)
                forked[other] = Step(group, other)
                steps.append(forked[other])
            elif what == _EXEC and group in self._known:
                step = forked.get(group)
                if step is None:
                    steps.append(Step(group, 0, True))
                else:
                    step.executed = True
            elif what == _EXIT and pid == group and pid in self._known:
                self._known.remove(pid)
                self._ended.add(pid)
        return steps

    def _events(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield the pending events: the kind of each, and its four pids."""
        start = _HEADER.size + _MESSAGE.size
        while self._socket is not None:
            try:
                data = self._socket.recv(4096)
            except OSError as error:
                if error.errno == errno.ENOBUFS:
                    continue  # the socket's buffer was full: some events are lost
                return
            if len(data) >= start + _EVENT.size:
                what, _, _, *pids = _EVENT.unpack_from(data, start)
                yield what, *pids


def _connected() -> socket.socket | None:
    """Return a socket that receives the events of processes; None if the system has none."""
    try:
        found = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _CONNECTOR)
    except (AttributeError, OSError):
        return None
    try:
        found.bind((0, _CN_PROC))
        listen = struct.pack("=I", _LISTEN)
        body = _MESSAGE.pack(_CN_PROC, _CN_PROC, 0, 0, len(listen), 0) + listen
        found.send(_HEADER.pack(_HEADER.size + len(body), _DONE, 0, 0, os.getpid()) + body)
        found.setblocking(False)
        return found
    except OSError:
        found.close()
        return None


def _comm(pid: int) -> str:
    """Return the name of a process, or of its children if it has ended."""
    try:
        name = Path(f"/proc/{pid}/comm").read_bytes()
    except OSError:
        return "client"
    return name.strip().decode("ascii", "replace").replace("\0", "")[:15] or "client"


def _nice(pid: int) -> int:
    """Return the nice value of a process; 0 if it has ended."""
    try:
        return os.getpriority(os.PRIO_PROCESS, pid)
    except OSError:
        return 0


def _directory(pid: int, path: str) -> str | None:
    """Return the current directory of a process if it is `path` of a mount; None otherwise."""
    try:
        directory = os.readlink(f"/proc/{pid}/cwd")
        mounts = Path(f"/proc/{pid}/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return None
    if not directory.endswith(path.rstrip("/")):
        return None
    top = directory.removesuffix(path.rstrip("/"))
    own = (line.split() for line in mounts if MOUNT_TYPE in line)
    return directory if any(row[4] == top for row in own) else None
