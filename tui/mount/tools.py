"""`bin/`: the programs that load modules, for the machine instead of the host.

A client that calls modprobe(8) means the kernel whose files it sees. With `bin/` first in its PATH,
it gets these scripts, which give the command to the shell of the machine, through `ctl`. The
module's init and exit run in a guest task with the pid and the name of the client.
"""

from __future__ import annotations

from ...core.tracefs.tree import Directory, File

DIRECTORY = "bin"
"""Its name at the top of the mount."""

_SCRIPT = """\
#!/bin/sh
# {name} of this machine: gives the command to its shell.
ctl=${{0%/*}}/../ctl
line={name}
for word; do line="$line '$word'"; done
if {{ echo "$line" > "$ctl"; }} 2> /dev/null; then
	cat "$ctl"
else
	cat "$ctl" >&2
	exit 1
fi
"""

_REMOVE = '[ "$1" != -r ] || { shift; exec "${0%/*}/rmmod" "$@"; }\n'
"""The option -r of modprobe."""


class Tool(File):
    """A program."""

    mode = 0o555

    def __init__(self, text: str) -> None:
        self._text = text

    def read(self) -> str:
        """Return the script."""
        return self._text


def tools() -> Directory:
    """Return the directory."""
    scripts = {name: _SCRIPT.format(name=name) for name in ("insmod", "lsmod", "modprobe", "rmmod")}
    head, _, rest = scripts["modprobe"].partition("ctl=")
    scripts["modprobe"] = f"{head}{_REMOVE}ctl={rest}"
    return Directory({name: Tool(text) for name, text in scripts.items()})
