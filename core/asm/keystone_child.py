"""Keystone, one source at a time: in this process, or as a script in a child process.

Keystone 0.9.2 hangs on some invalid sources (`lock 0x`, `% `), and nothing can interrupt it.
So text that a user typed is assembled in a child process, which is killed if it takes too long.
The script reads one JSON request per line and answers each with one line. It must run by
itself, so it imports nothing from this package.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import NamedTuple

MISSING = "Keystone is not installed"
"""The error of a source on a host without Keystone, which has no wheel for some machines."""

MEMORY = 1 << 29
"""Memory limit of the child process, in bytes."""

SECONDS = 2
"""Limit of its CPU time in seconds, for a typed line and the search for its mistake.

It ends even if its parent was killed, and a busy host does not make a valid line fail."""


class Answer(NamedTuple):
    """Result for one source; `error` is empty on success."""

    code: bytes
    error: str
    externals: list[str]
    """Undefined symbols, which were given the address itself, in order of use."""


def assemble_once(arch: str, mode: Sequence[str], text: str, address: int, lenient: bool) -> Answer:
    """Assemble `text` for `address`; `lenient` gives undefined symbols that address.

    `arch` and `mode` are names of Keystone's constants.
    """
    try:
        import keystone
    except ImportError:  # the package, or the library inside of it
        return Answer(b"", MISSING, [])
    names = (arch, *mode)
    if unknown := [name for name in names if not hasattr(keystone, name)]:
        return Answer(b"", f"Keystone has no constant {unknown[0]}", [])
    kind, *modes = (int(getattr(keystone, name)) for name in names)
    engine = keystone.Ks(kind, sum(modes))
    externals: list[str] = []

    def nearby(name: bytes, value: list[int]) -> bool:
        externals.append(name.decode("ascii", "replace"))
        value[0] = address
        return True

    if lenient:
        engine.sym_resolver = nearby
    try:
        code, _ = engine.asm(text, address, True)
    except keystone.KsError as error:
        return Answer(b"", str(error).split(" (KS_")[0], externals)
    return Answer(bytes(code or b""), "", externals)


def _serve() -> None:
    """Answer requests until the end of input."""
    import resource

    for kind, wanted in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CPU, SECONDS)):
        _, hard = resource.getrlimit(kind)
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (limit, limit))
    for line in sys.stdin:
        answer = assemble_once(*json.loads(line))
        print(json.dumps([answer.code.hex(), answer.error, answer.externals]), flush=True)


if __name__ == "__main__":
    _serve()
