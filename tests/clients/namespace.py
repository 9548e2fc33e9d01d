"""A mount namespace of its own, in which a machine's files stand where the kernel's would be.

The system's own tracefs is unmounted in that namespace, and clients run without the right to mount
it again, so none can reach it. Clients of
libtracefs want a mount whose type is exactly `tracefs`: for them, a prepared list of mounts is
bound over their own `/proc/PID/mounts`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

TRACING = Path("/sys/kernel/tracing")

START_S = 60
"""Host seconds that a machine may take to boot and mount."""

END_S = 30
"""Host seconds in which it must end, by itself or after a signal."""

_CLONE_NEWNS, _MS_BIND, _MS_REC, _MS_PRIVATE, _MNT_DETACH = 0x20000, 4096, 16384, 1 << 18, 2

_libc = ctypes.CDLL(None, use_errno=True)

_NO_MOUNTS = ("setpriv", "--inh-caps", "-sys_admin", "--bounding-set", "-sys_admin", "--")
"""Runs a program that cannot mount: libtracefs would mount the system's tracefs if it misses it."""

_AS_TRACEFS = 'mount --bind "$0" /proc/$$/mounts && exec "$@"'


class NotPossibleError(Exception):
    """The system does not allow it; the text says why."""


def _mount(source: str, target: str, flags: int) -> None:
    if _libc.mount(source.encode(), target.encode(), None, flags, None):
        raise NotPossibleError(f"mount {target}: {os.strerror(ctypes.get_errno())}")


def enter() -> None:
    """Move this process into a private mount namespace without tracefs and debugfs.

    Raises `NotPossibleError`.
    """
    if os.geteuid() != 0:
        raise NotPossibleError("mount namespaces need root")
    if _libc.unshare(_CLONE_NEWNS):
        raise NotPossibleError(f"unshare: {os.strerror(ctypes.get_errno())}")
    _mount("none", "/", _MS_REC | _MS_PRIVATE)
    for target in reversed(_mounted("tracefs", "debugfs")):
        _libc.umount2(target.encode(), _MNT_DETACH)
    if _mounted("tracefs", "debugfs"):
        raise NotPossibleError("the system's tracefs cannot be unmounted")
    if not TRACING.is_dir():
        raise NotPossibleError(f"{TRACING} does not exist")


def _mounted(*kinds: str) -> list[str]:
    """Return the mount points of file systems of these types."""
    rows = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    return [row[1] for row in rows if row[2] in kinds]


def _check_private() -> None:
    """Fail if the system's tracefs has come into sight."""
    found = _mounted("tracefs", "debugfs")
    assert not found, f"a client has mounted {found[0]}"


class Machine:
    """A machine whose files are mounted on `TRACING`."""

    patience = 1.0
    """Factor of all limits of host seconds: more on a busy system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        """For files of the clients."""
        self._mounts = folder / "mounts"
        rows = [
            line.replace("fuse.tracefs", "tracefs")
            for line in Path("/proc/mounts").read_text().splitlines()
            if f" {TRACING} " in line
        ]
        if (
            len(rows) != 1
            or "fuse"
            not in subprocess.run(
                ["stat", "-f", "-c", "%T", TRACING], capture_output=True, text=True, check=True
            ).stdout
        ):
            raise NotPossibleError(f"{TRACING} is not the machine")
        self._mounts.write_text("\n".join([*rows, ""]))

    def run(
        self,
        words: Sequence[str],
        seconds: float = 30,
        cwd: Path | None = None,
        tracefs: bool = True,
    ) -> tuple[int, str]:
        """Run a client; return its status and all that it wrote.

        `tracefs` shows it the mount as one of type tracefs. Programs that load modules are those of
        the machine. A client that takes longer than
        `seconds` is killed with its children: its status is 124.
        """
        command = [*_NO_MOUNTS, *words]
        if tracefs:
            command = ["sh", "-c", _AS_TRACEFS, str(self._mounts), *command]
        with subprocess.Popen(
            command,
            cwd=cwd or self.folder,
            env={**os.environ, "PATH": f"{TRACING / 'bin'}:{os.environ.get('PATH', os.defpath)}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as client:
            try:
                said, _ = client.communicate(timeout=seconds * self.patience)
                _check_private()
                return client.returncode, said
            except subprocess.TimeoutExpired:
                os.killpg(client.pid, signal.SIGKILL)
                said, _ = client.communicate()
                return 124, said

    def reset(self) -> None:
        """Switch everything off that a client may have left on."""
        for name, text in _OFF:
            file = TRACING / name
            if file.exists():
                file.write_text(text)


_OFF = (
    *(("tracing_on", "0"), ("current_tracer", "nop"), ("events/enable", "0")),
    *(("set_ftrace_filter", ""), ("set_ftrace_notrace", ""), ("set_ftrace_pid", "")),
    *(("set_graph_function", ""), ("trace", ""), ("trace_clock", "local"), ("tracing_on", "1")),
)


@contextmanager
def machine(
    arch: str, *options: str, command: Sequence[str] = ("-m", "dynftrace", "mount")
) -> Iterator[Machine]:
    """Mount a machine in this namespace, by Python's `command`. Raises `NotPossibleError`."""
    with tempfile.TemporaryDirectory(prefix="clients.") as name:
        folder = Path(name)
        own, log = folder / "mount", folder / "log"
        own.mkdir()
        with log.open("w") as out:
            mounted = subprocess.Popen(
                [sys.executable, *command, "--arch", arch, *options, str(own)],
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        bound: list[str] = []
        try:
            _await(mounted, log)
            for source, target in (
                (own, TRACING),
                (own / "proc/kallsyms", Path("/proc/kallsyms")),
                (own / "proc/version", Path("/proc/version")),
                (own / "proc/sys/kernel", Path("/proc/sys/kernel")),
            ):
                if source.exists():
                    _mount(str(source), str(target), _MS_BIND)
                    bound.append(str(target))
            _libc.umount2(str(own).encode(), _MNT_DETACH)  # one mount is enough for ftracetest
            yield Machine(folder)
        finally:
            for place in reversed(bound):
                _libc.umount2(place.encode(), _MNT_DETACH)
            # It ends once nothing uses the mount.
            for number in (None, signal.SIGTERM, signal.SIGKILL):
                if number is not None:
                    mounted.send_signal(number)
                try:
                    mounted.wait(END_S)
                    break
                except subprocess.TimeoutExpired:
                    continue
            if mounted.returncode:
                print(f"the mount ended with {mounted.returncode}:", file=sys.stderr)
                print(log.read_text(), file=sys.stderr)


def _await(mounted: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the machine is mounted."""
    end = time.monotonic() + START_S
    while "is mounted" not in log.read_text():
        if mounted.poll() is not None or time.monotonic() > end:
            raise NotPossibleError(f"no machine is mounted: {log.read_text().strip()}")
        time.sleep(0.05)
