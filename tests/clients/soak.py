"""All clients at once, for long: the machine's text must be as at boot when all is off.

    python -m tests.clients.soak [--minutes M] [--arch ARCH]

Each worker runs a client or a script again and again on one mounted machine. They disturb each
other, so what they say does not count. At the end everything is switched off. The status is 1 if
the machine has stopped or oopsed, if text, records or users of ftrace differ from those at boot,
or if memory of instances is left. Needs root; see namespace.py.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dynftrace import arches
from dynftrace.core.ftrace.entry import TRAMPOLINE
from dynftrace.core.session.session import Session
from dynftrace.tui.mount.mount import mount
from dynftrace.tui.mount.runner import Pace

from ..support.user import opened
from .__main__ import tried
from .cases import LIBTRACEFS, PERF, TRACE_CMD
from .namespace import TRACING, Machine, NotPossibleError, enter, machine

MINUTES = 10.0

SCRIPTS: Mapping[str, str] = {
    "tracers": """
        for tracer in function function_graph irqsoff wakeup nop; do
            echo $tracer > current_tracer; head -50 trace > /dev/null; done
        echo '*lock*' > set_ftrace_filter; echo '!*unlock*' >> set_ftrace_filter
        echo 1 > function_profile_enabled; sleep 0.1; cat trace_stat/function0 > /dev/null
        echo 0 > function_profile_enabled; echo > set_ftrace_filter""",
    "commands": """
        echo 'schedule:traceoff:3' > set_ftrace_filter
        echo 'vfs_*:stacktrace:5' >> set_ftrace_filter
        echo '*alloc*:enable_event:sched:sched_switch' >> set_ftrace_filter
        echo 'schedule:snapshot:1' >> set_ftrace_filter; sleep 0.1; cat set_ftrace_filter
        echo '!schedule:traceoff' >> set_ftrace_filter
        echo '!vfs_*:stacktrace:5' > set_ftrace_filter
        echo '!*:enable_event:sched:sched_switch' > set_ftrace_filter
        echo '!schedule:snapshot:0' > set_ftrace_filter; echo 1 > tracing_on""",
    "instances": """
        for name in a b c; do mkdir instances/$name; done
        for name in a b c; do cd instances/$name || continue
            echo 1 > events/sched/enable; echo '*read*' > set_ftrace_filter
            echo function > current_tracer; echo $$ > set_event_pid
            echo 'hist:keys=next_pid' > events/sched/sched_switch/trigger
            echo text > trace_marker; cat trace > /dev/null; cd ../..; done
        rmdir instances/*""",
    "racing instances": "for name in a b; do mkdir instances/$name; rmdir instances/$name; done",
    "events": """
        echo 1 > events/enable; echo 'prev_pid > 2' > events/sched/sched_switch/filter
        echo 'traceoff:1 if next_pid == 1' > events/sched/sched_switch/trigger; sleep 0.1
        echo '!traceoff:1' > events/sched/sched_switch/trigger
        echo 0 > events/sched/sched_switch/filter; echo 0 > events/enable; echo 1 > tracing_on""",
    "a killed reader": "timeout -s KILL 0.5 cat trace_pipe > /dev/null",
    "a module": """
        echo 'insmod usbcore' > ctl; echo ':mod:usbcore' > set_ftrace_filter
        echo function > current_tracer; echo 'run usb' > ctl; echo 'rmmod usbcore' > ctl
        echo nop > current_tracer; echo > set_ftrace_filter""",
    "sizes": """
        echo 100 > buffer_size_kb; echo 1 > snapshot; echo 0 > snapshot; echo > trace
        for clock in counter mono local; do echo $clock > trace_clock; done
        echo 1408 > buffer_size_kb""",
}
"""What shells do, by name; each runs in the directory of the mount."""

OFF = (
    *(("current_tracer", "nop"), ("function_profile_enabled", "0"), ("events/enable", "0")),
    *((name, "") for name in ("set_ftrace_filter", "set_ftrace_notrace", "set_ftrace_pid")),
    *((name, "") for name in ("set_graph_function", "set_graph_notrace", "set_event_pid")),
    *(("dynamic_events", ""), ("/proc/sys/kernel/stack_tracer_enabled", "0"), ("tracing_on", "1")),
)
"""What switches the top trace array off."""

_NOT_CODE = "function_trace_op"
"""A word between the functions of the entry code, as in the kernel's ftrace_caller."""


def switch_off(session: Session) -> None:
    """Switch off what clients have left on. Raises `TracefsError`."""
    tracefs = session.boot.tracefs
    for name in tracefs.listdir("instances"):
        tracefs.rmdir(f"instances/{name}")
    for line in tracefs.read("set_ftrace_filter").splitlines():
        if ":" in line and not line.startswith("#") and ":mod:" not in line:
            tracefs.write("set_ftrace_filter", f"!{line.replace('count=', '')}\n", append=True)
    for event in session.boot.array.triggered:
        event.triggers.clear()
    for path, text in OFF:
        tracefs.write(path, f"{text}\n")


def state(session: Session) -> dict[str, Any]:
    """Return what must be the same at the end as at boot; trampolines stay for the next user."""
    boot = session.boot
    regions = boot.machine.memory.regions
    text = {
        each.name: bytearray(each.bytes)
        for each in regions
        if each.executable and not each.writable
    }
    word = boot.ftrace.entry[_NOT_CODE] - boot.ftrace.entry.address
    text["tracer"][word : word + 8] = bytes(8)
    return {
        "text": {name: data for name, data in text.items() if not name.startswith(TRAMPOLINE)},
        "users": boot.tracefs.read("enabled_functions"),
        "instances": [each.name for each in regions if each.name.startswith("instance")],
        "alive": boot.machine.alive,
        "oopses": [each.reason for each in boot.machine.oopses],
    }


def serve(directory: Path, arch: str, result: Path) -> None:
    """Mount a machine; once it is unmounted, write to `result` what differs from its boot."""
    session = opened(arch)
    before = state(session)
    said: list[str] = []

    def ready() -> None:
        print(f"tracefs is mounted on {directory}", flush=True)

    mount(session, directory, Pace.REAL, ready, said.append)
    switch_off(session)
    after = state(session)
    result.write_text(json.dumps([*said, *_differences(before, after)]))


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name, was in before.items():
        now = after[name]
        if was != now:
            if isinstance(was, dict):
                now = sorted(each for each in was | now if was.get(each) != now.get(each))
            yield f"{name} differ: {now!r:.300}"


class Workers:
    """Clients that run until they are told to end."""

    def __init__(self, mounted: Machine) -> None:
        self._mounted = mounted
        self._over = threading.Event()
        self.rounds: dict[str, int] = {}
        jobs = [(name, self._script(script)) for name, script in SCRIPTS.items()]
        jobs += [(name, self._cases(cases)) for name, cases in _CLIENTS.items()]
        self._threads = [threading.Thread(target=self._run, args=job) for job in jobs]

    def run(self, seconds: float) -> None:
        """Let them run, and wait until the last command has ended."""
        for thread in self._threads:
            thread.start()
        time.sleep(seconds)
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, name: str, rounds: Iterator[None]) -> None:
        for _ in rounds:
            self.rounds[name] = self.rounds.get(name, 0) + 1
            if self._over.is_set():
                return

    def _script(self, script: str) -> Iterator[None]:
        while True:
            self._mounted.run(["sh", "-c", script], cwd=TRACING, tracefs=False)
            yield

    def _cases(self, cases: tuple[Any, ...]) -> Iterator[None]:
        folder = Path(tempfile.mkdtemp(dir=self._mounted.folder))
        own = Machine(folder)
        while True:
            for _ in tried(own, cases, reset=False):
                yield


_CLIENTS = {"trace-cmd": TRACE_CMD, "perf": PERF, "libtracefs": LIBTRACEFS}


def main() -> int:
    """Run the clients; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.clients.soak")
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--arch", default=arches.DEFAULT)
    parser.add_argument("--serve", type=Path, metavar="RESULT", help=argparse.SUPPRESS)
    parser.add_argument("directory", nargs="?", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.directory, options.arch, options.serve)
        return 0
    with tempfile.TemporaryDirectory(prefix="soak.") as name:
        result = Path(name) / "result"
        command = ("-m", "tests.clients.soak", "--serve", str(result))
        try:
            enter()
            with machine(options.arch, command=command) as mounted:
                workers = Workers(mounted)
                workers.run(60 * options.minutes)
        except NotPossibleError as error:
            print(f"skipped: {error}")
            return 0
        wrong = json.loads(result.read_text()) if result.exists() else ["the mount has died"]
    rounds = ", ".join(f"{each} {count}" for each, count in sorted(workers.rounds.items()))
    print(f"rounds: {rounds}")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
