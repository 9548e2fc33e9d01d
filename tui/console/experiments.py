"""Experiments: shell commands that break something worth seeing, for the palette."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment; `{ip}` in its command stands for the shown call site."""

    title: str
    about: str
    command: str


EXPERIMENTS = (
    Experiment(
        "damage this call site",
        "overwrite it with zeros: ftrace refuses to patch it, and shuts off",
        "poke {ip} 00 00 00 00",
    ),
    Experiment(
        "damage the stub of ftrace_caller",
        "a module's calls go wrong: ftrace refuses the next change",
        "poke ftrace_caller.stub nop",
    ),
    Experiment(
        "do not flush CPU 1 after a patch",
        "it keeps running old text, as with a stale icache",
        "icache skip 1",
    ),
    Experiment("flush all CPUs again", "flush every instruction cache", "icache flush"),
    Experiment(
        "patch while other CPUs run",
        "no stop_machine, no breakpoint: a CPU may run half-written text",
        "patch none",
    ),
    Experiment("load a module far away", "out of reach of a direct call", "insmod --far usbcore"),
    Experiment("undo the last command", "restore the machine as it was before", "back"),
)
