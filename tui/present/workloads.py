"""Descriptions of the teaching kernel's workloads, for the picker."""

from __future__ import annotations

from collections.abc import Sequence

from .line import Line, line

FIRST = "syscalls"
"""The workload to offer first: it calls most of the kernel, and every tour uses it."""

_SENTENCES = {
    "boot": "fork a process that executes the start script /sbin/rc",
    "syscalls": "two processes read and write files and a pipe",
    "usb": "plug and unplug a USB device (needs insmod usbcore)",
    "forkbomb": "fork until the limit of tasks is reached",
    "irqstorm": "100 device interrupts in a row",
    "locks": "tasks on all CPUs fight for one lock",
    "timers": "32 timers expire",
    "sockets": "a process accepts a connection and reads what the other writes",
}


def workload_lines(names: Sequence[str]) -> list[Line]:
    """Return a line for each workload: its name, and its description if known."""
    width = max((len(name) for name in names), default=0) + 2
    return [
        line((f"{name:<{width}}", "strong"), (_SENTENCES.get(name, ""), "dim"), copy=name)
        for name in names
    ]
