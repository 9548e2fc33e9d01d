"""Suggestions for commands that the shell does not have."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_INSTEAD = {
    ("sudo", "su", "doas"): "every command already runs as root: leave it out",
    ("mount", "umount"): "tracefs is already mounted, at /sys/kernel/tracing",
    ("modinfo",): "lsmod lists the modules that are loaded",
    ("less", "more", "vi", "vim", "nano", "view"): "use cat, head, tail or grep",
    (
        "awk",
        "sed",
        "perl",
        "python",
        "python3",
        "tr",
        "tac",
        "column",
        "fold",
    ): "use grep, cut, head, tail, sort or uniq",
    ("egrep",): "use grep -E",
    ("fgrep",): "use grep -F",
    ("nl",): "use cat -n",
    ("xargs", "while", "seq"): "use for WORD in WORDS; do COMMANDS; done",
    ("find",): "use ls and globs, such as events/*/enable",
    ("sysctl",): "read and write the files of /proc/sys",
    ("usleep",): "use sleep SECONDS, such as sleep 0.001",
    ("printf",): "use echo, with -n to leave out the newline",
    ("ps", "top", "pidof", "pgrep"): "saved_cmdlines lists tasks that were traced",
    ("trace-cmd", "perf", "uftrace", "bpftrace"): (
        "write to the files of tracefs; `dynftrace export` writes traces for other tools"
    ),
    ("pushd", "popd"): "use cd DIRECTORY and cd -",
    ("exit", "quit", "logout"): "it must be a line of its own, without a status",
}
_BY_NAME = {name: text for names, text in _INSTEAD.items() for name in names}


def not_found(name: str, known: Iterable[str]) -> str:
    """Return the error for the unknown command `name`, with the command to use instead if known."""
    if name in _BY_NAME:
        return f"{name}: command not found: {_BY_NAME[name]}"
    near = get_close_matches(name, known, 1, 0.75)
    return f"{name}: command not found" + (f": did you mean {near[0]}?" if near else "")
