"""Keystone, one source at a time: in this process, or run as a script in one of its own.

Keystone 0.9.2 does not come back from some sources with an error (`lock 0x`,
`% `), and nothing can interrupt it. Text that a user typed is therefore
assembled in a child, which is told to go when it takes too long. As a script it
reads one JSON request a line and answers each with one line; it must stand
alone, so it imports nothing of this package.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import NamedTuple

from keystone.keystone import Ks, KsError

MEMORY = 1 << 30
"""Bytes a child may use."""


class Answer(NamedTuple):
    """What became of a source; `error` is empty when it was taken."""

    code: bytes
    error: str
    externals: list[str]
    """Symbols that were not defined and stood for the address itself, in order of use."""


def assemble_once(arch: int, mode: int, text: str, address: int, lenient: bool) -> Answer:
    """Assemble `text` for `address`; `lenient` lets symbols that are not defined stand for it."""
    engine = Ks(arch, mode)
    externals: list[str] = []

    def nearby(name: bytes, value: list[int]) -> bool:
        externals.append(name.decode("ascii", "replace"))
        value[0] = address
        return True

    if lenient:
        engine.sym_resolver = nearby
    try:
        code, _ = engine.asm(text, address, True)
    except KsError as error:
        return Answer(b"", str(error).split(" (KS_")[0], externals)
    return Answer(bytes(code or b""), "", externals)


def _serve() -> None:
    """Answer requests until there are no more."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for line in sys.stdin:
        answer = assemble_once(*json.loads(line))
        print(json.dumps([answer.code.hex(), answer.error, answer.externals]), flush=True)


if __name__ == "__main__":
    _serve()
