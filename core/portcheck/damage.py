"""Damage to the text that ftrace is about to change: whatever the damage, it must be noticed.

Each unit of text - a word, or a byte if instructions have no alignment - of a site and of the
stub that its call uses is damaged, for each verb; then the verb's edit is verified. Nothing is
written by the edits except to get from a disabled to an enabled site and back.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..arch import Edit, ModuleStub
from ..errors import FtraceBug
from .bench import call_size, is_call
from .outcome import expect
from .reach import branch
from .subject import PortUnderTest
from .user import User


def all_noticed(subject: PortUnderTest, user: User, row: int) -> list[ModuleStub]:
    """Damage the site of record `row`, and the stub that it calls; return the stubs.

    Raises `Failure` for damage that a verb does not notice.
    """
    ftrace, port = user.session.boot.ftrace, user.session.port
    sites = ftrace.records.sites(np.array([row]))
    caller = ftrace.entry["ftrace_caller"]
    other = next((at for name, at in ftrace.entry.callers.items() if at != caller), caller)
    enable, disable = port.make_call(sites, caller), port.make_nop(sites, caller)
    modify = port.modify_call(sites, caller, other)
    ip, length = int(sites.ip[0]), int(port.lengths(sites)[0])
    text = enable.row(enable.replacement, 0)
    compiled = sites.compiled[0].tobytes()
    if is_call(port, compiled, ip):
        size = call_size(port, compiled, ip)
        wrong = f"the site has {length} bytes, but its call {size}"
        expect(length >= size, wrong, ip, b"", compiled)
    used = list(_used(subject, user, ip, text))
    _noticed(user, "make_call", enable, (ip, length), used)
    ftrace.patcher.apply(enable, "stop_machine", used)
    _noticed(user, "make_nop", disable, (ip, length), used)
    if modify.reachable[0]:  # some sites can call one target only
        _noticed(user, "modify_call", modify, (ip, length), used)
    ftrace.patcher.apply(disable, "stop_machine", used)
    return used


def _used(subject: PortUnderTest, user: User, ip: int, text: bytes) -> Iterator[ModuleStub]:
    """Yield the stub that the call `text` at `ip` leads to, if it is one."""
    step, stubs = subject.port.facts.insn_align, user.session.boot.ftrace.records.stubs
    for at in range(0, len(text), step) if step > 1 else (0,):
        found = branch(subject.port, ip + at, text[at:])
        target = -1 if found is None else found.target
        yield from (stub for stub in stubs if stub.address == target)


def _noticed(
    user: User, verb: str, edit: Edit, site: tuple[int, int], stubs: list[ModuleStub]
) -> None:
    """Raise `Failure` if `edit` passes verification although the site or a stub is damaged."""
    ftrace, memory = user.session.boot.ftrace, user.session.boot.machine.memory
    via = {int(each[0]) for each in edit.via}
    named = [stub for stub in ftrace.records.stubs if stub.address in via]
    ftrace.patcher.verify(edit, named)
    step = max(user.session.port.facts.insn_align, 1)
    places = [("the site", *site), *(("its stub", each.address, len(each.code)) for each in stubs)]
    for what, start, size in places:
        for at in range(start, start + size, step):
            good = memory.read(at, step)
            bad = bytes(byte ^ 0x81 for byte in good)
            memory.write(at, bad)
            try:
                ftrace.patcher.verify(edit, named)
            except FtraceBug:
                continue
            finally:
                memory.write(at, good)
            wrong = f"{verb} does not notice that {what} is damaged at +{at - start:#x}"
            expect(False, wrong, at, good, bad)
