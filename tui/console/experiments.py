"""Experiments: shell commands that break something worth seeing, for the palette."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # The palette is imported before the first paint, which must not wait for a session's parts.
    from ...core.session.session import Session

STUB = "ftrace_caller.stub"


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment; `{ip}` and `{name}` in its command stand for the shown call site."""

    title: str
    about: str
    command: str
    works: Callable[[Session], bool] = lambda session: True
    """Whether the command would do now what `about` says."""


EXPERIMENTS = (
    Experiment(
        "damage this call site, and trace it",
        "overwrite it with zeros: ftrace refuses to patch it, and shuts off",
        "poke {ip} 00 00 00 00 && echo nop > current_tracer && echo {name} > set_ftrace_filter"
        " && echo function > current_tracer",
        lambda session: not session.boot.ftrace.disabled,
    ),
    Experiment(
        "write-protect this call site, and trace it",
        "ftrace reads its text but cannot write it: EPERM, and ftrace shuts off",
        "protect {ip} ro && echo nop > current_tracer && echo {name} > set_ftrace_filter"
        " && echo function > current_tracer",
        lambda session: not session.boot.ftrace.disabled,
    ),
    Experiment(
        "damage the stub of ftrace_caller",
        "a module's calls go wrong: ftrace refuses the next change",
        f"poke {STUB} 00 00 00 00",
        lambda session: session.boot.kallsyms.address(STUB) is not None,
    ),
    Experiment(
        "do not flush CPU 1 after a patch",
        "it keeps running old text, as with a stale icache",
        "icache skip 1",
        lambda session: len(session.boot.machine.vcpus) > 1,
    ),
    Experiment(
        "flush all CPUs again",
        "flush every instruction cache",
        "icache flush",
        lambda session: session.boot.ftrace.patcher.flush_cpus is not None,
    ),
    Experiment(
        "patch while other CPUs run",
        "no stop_machine, no breakpoint: a CPU may run half-written text",
        "patch none",
        lambda session: session.boot.ftrace.patcher.method != "none",
    ),
    Experiment(
        "load a module far away",
        "out of reach of a direct call",
        "insmod --far usbcore",
        lambda session: (
            session.port.facts.modules_far is not None
            and session.boot.modules.find("usbcore") is None
        ),
    ),
    Experiment(
        "count sleep as a latency",
        "irqsoff then reports the sleep of an idle CPU as the longest latency",
        "idle counted && echo irqsoff > current_tracer",
        lambda session: session.boot.array.latency.tracer.traces_idle is False,
    ),
    Experiment(
        "exclude sleep from latencies again",
        "put stop_critical_timings() back into the idle loop",
        "idle excluded",
        lambda session: session.boot.array.latency.tracer.traces_idle is True,
    ),
    Experiment(
        "undo the last command",
        "restore the machine as it was before",
        "back",
        lambda session: bool(session.journal.actions),
    ),
)


def offered(session: Session) -> frozenset[str]:
    """Return the titles of the experiments that work in `session` now."""
    return frozenset(each.title for each in EXPERIMENTS if each.works(session))
