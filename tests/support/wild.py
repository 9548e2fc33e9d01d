"""Wild calls: random addresses of a booted machine are called, in child processes.

Whatever a call does to the guest, it must not end the process. A child boots once and goes back to
a snapshot after each call. It tells its parent about each call before and after it, so that the
parent knows which call killed it, and goes on with the next one in a new child.

`python -m tests.support.wild COUNT [PORT…]` makes COUNT calls on each port, by default on all.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from dynftrace import arches
from dynftrace.core.abi import LOCAL_PAGE_SIZE, LOCAL_PAGES
from dynftrace.core.errors import GuestError
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

LIMIT_NS = 1_000_000
"""Virtual ns after which a call counts as one that does not return."""

LIMIT_S = 60
"""Seconds a call may take on the host; a child that hangs longer dies by SIGALRM."""

BEYOND = 64
"""Bytes after each region in which addresses are called too."""


@dataclass
class Survey:
    """What the calls of one port came to."""

    outcomes: Counter[str] = field(default_factory=Counter)
    deaths: list[str] = field(default_factory=list)
    """The calls that ended their process, and the status of the process."""


def survey(arch: str, seed: int, count: int) -> Survey:
    """Make `count` calls, the same for the same `seed`."""
    found = Survey()
    first = 0
    while first < count:
        told, says = os.pipe()
        child = os.fork()
        if not child:
            os.close(told)
            _child(says, arch, seed, range(first, count))
        os.close(says)
        with open(told, encoding="utf-8") as pipe:
            lines = pipe.read().splitlines()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        found.outcomes.update(line.split()[2] for line in lines if len(line.split()) > 2)
        if not status:
            break
        last = lines[-1] if lines else f"{first} boot"
        found.deaths.append(f"{arch} {last}: status {status}")
        first = int(last.split()[0]) + 1
    return found


def _child(says: int, arch: str, seed: int, numbers: range) -> None:
    """Make the calls `numbers` in this process, which ends."""
    status = 1
    try:
        with open(says, "w", encoding="utf-8") as pipe:
            _calls(arch, seed, numbers, lambda text: print(text, end="", file=pipe, flush=True))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _calls(arch: str, seed: int, numbers: range, say: Callable[[str], None]) -> None:
    """Boot, and make the calls `numbers`."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(LIMIT_S)
    session = Session.open(arches.load(arch), MachineSpec(modules=("usbcore",)))
    assert not Shell(session).execute("echo function > current_tracer; run usb").error
    machine, facts = session.boot.machine, session.port.facts
    memory, size = machine.memory, facts.pointer_size
    spans = [(region.address, region.end) for region in memory.regions]
    spans.append((facts.map.local, facts.map.local + LOCAL_PAGES * LOCAL_PAGE_SIZE))
    scratch = facts.map.host_stack + (1 << 20)
    memory.map(scratch, 0x1000, "scratch", executable=False)
    restore = machine.save()
    for number in numbers:
        chance = random.Random(f"{seed} {arch} {number}")
        start, end = chance.choice(spans)
        address = chance.randrange(start, end + BEYOND) % (1 << 8 * size)
        if chance.random() < 0.8:
            address -= address % facts.insn_align
        say(f"{number} {address:#x} ")
        pointer = address
        if facts.abi.toc is not None:  # the machine calls through a descriptor
            pointer = scratch
            memory.write_int(scratch, address)
        values = (0, 1, address, scratch, chance.getrandbits(31))
        arguments = [chance.choice(values) for _ in range(3)]
        signal.alarm(LIMIT_S)
        try:
            machine.requests.call(pointer, arguments, limit_ns=LIMIT_NS)
        except GuestError as error:
            say(f"{type(error).__name__}\n")
        else:
            say("returned\n")
        restore()


def main(count: str, *ports: str) -> None:
    """Print what the calls came to."""
    failed = False
    for arch in ports or arches.built_in():
        found = survey(arch, 1, int(count))
        failed |= bool(found.deaths)
        print(arch, dict(found.outcomes), *found.deaths, sep="\n    ", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main(*sys.argv[1:])
