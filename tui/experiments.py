"""What is worth breaking: commands of the shell that the palette offers, with what they show."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Experiment:
    """One thing to try; `{ip}` in its command is the call site that is shown."""

    title: str
    about: str
    command: str


EXPERIMENTS = (
    Experiment(
        "damage this call site",
        "zeros over it: ftrace refuses to touch it, and shuts off",
        "poke {ip} 00 00 00 00",
    ),
    Experiment(
        "damage the stub of ftrace_caller",
        "a module's calls go astray: the next change is refused",
        "poke ftrace_caller.stub nop",
    ),
    Experiment(
        "do not tell CPU 1 of changed text",
        "it goes on with what it has run before, as with a stale icache",
        "icache skip 1",
    ),
    Experiment("tell all CPUs again", "flush every instruction cache", "icache flush"),
    Experiment(
        "patch while others execute",
        "no stop_machine, no breakpoint: text can be seen half written",
        "patch none",
    ),
    Experiment("load a module far away", "beyond what a call reaches", "insmod --far usbcore"),
    Experiment("undo the last command", "the machine as it was before", "back"),
)
