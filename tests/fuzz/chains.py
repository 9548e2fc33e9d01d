"""Pipelines and loops of the shell, and its commands for NMIs, time travel and export."""

from __future__ import annotations

import csv
import json
from random import Random

from dynftrace import arches
from dynftrace.core.session.session import Session
from dynftrace.core.shell.commands import commands
from dynftrace.core.shell.shell import Shell
from dynftrace.core.trace.export import records, stacks, timeline
from dynftrace.tui.cli.prompt import run_lines

from . import damage
from .images import machine
from .kind import Case, Wrong, impatient
from .typed import FILES, FUNCTIONS, PLACES, WORKLOADS, line

NUMBERS = "0 1 2 3 -1 7 99999999999999999999 1.5 1e9 x".split()  # noqa: SIM905
TIMES = "0 0.011 0.0125 0.012000001 -0.1 9e99 nan 1 -1 5 300 - 0.05".split()  # noqa: SIM905
PATTERNS = [
    *FUNCTIONS,
    *("'(a*)*b'", "'[0-9]+'", "'['", "'\\bsched'", "'^#'", "''", "'(?P<a>x)\\1'", "'.*'", "$f"),
]
TOKENS = ["|", "||", "&&", ";", "for f in", "; do ", "; done", "$f", "$?", "'", '"', "\n", ">", "*"]


def _some(random: Random, words: list[str]) -> str:
    return " ".join(word for word in words if random.random() < 0.4)


def filtered(random: Random) -> str:
    """Return a filter with options."""
    number = random.choice(NUMBERS)
    return random.choice(
        (
            f"grep {_some(random, ['-E', '-i', '-v', '-c', '-n', '-o', '-w'])} "
            f"{random.choice(PATTERNS)}",
            f"sort {_some(random, ['-n', '-r', '-u', f'-k {number},{number}', '-t :'])}",
            f"uniq {_some(random, ['-c', '-d', '-u'])}",
            f"head -n {number}",
            f"tail -{number}",
            f"cut {random.choice(('-c', '-f', '-d : -f'))} {number}-{random.choice(NUMBERS)}",
            f"wc {_some(random, ['-l', '-w', '-c'])}",
            f"tee {random.choice(FILES)}",
            random.choice(("run syscalls", "cat", "dmesg", "site schedule")),
        )
    )


def single(random: Random) -> str:
    """Return one of the commands that `typed.Script` hardly reaches."""
    number, time, place = (random.choice(each) for each in (NUMBERS, TIMES, PLACES))
    function = random.choice(FUNCTIONS)
    return random.choice(
        (
            f"nmi {random.choice(('', '0', '1', '9'))} {random.choice((time, 'change', 'off'))}",
            f"nmi 0 every {random.choice(('50000', '1', '0', number))}",
            f"protect {place} {random.choice(('none', 'ro', 'rw', 'x'))}",
            f"protect {random.choice(('', place))}",
            f"goto {time}",
            f"goto {time} {number}",
            *(f"{name} {random.choice(('', '', '1', '2', number))}" for name in ("back", "redo")),
            *("back", "redo", "goto -"),
            f"flame {random.choice(('', '0', '50', number))}",
            f"hist {function}",
            f"records --how {function}",
            f"insmod --replace {function}={random.choice(FUNCTIONS)} usbcore",
            "insmod --replace _mcount=_mcount_trampoline usbcore-jal",
            f"reboot --stop-at {random.choice((*FUNCTIONS, 'ftrace_init', 'start_kernel'))}",
            *(f"echo {name} > current_tracer" for name in ("function", "function_graph", "nop")),
            *(f"echo {name} > current_tracer" for name in ("irqsoff", "preemptoff", "wakeup")),
            f"run {random.choice(WORKLOADS)}",
            f"step {random.randint(0, 30)}",
            f"idle {random.choice(('counted', 'excluded', 'x'))}",
        )
    )


def chain(random: Random) -> str:
    """Return one line: a command, a pipeline or a loop."""
    chance = random.random()
    if chance < 0.4:
        return single(random)
    if chance < 0.5:
        return line(random, [*commands()])
    source = random.choice(
        ("cat trace", f"cat {random.choice(FILES)}", "records", "dmesg", "echo a b c", "help")
    )
    text = " | ".join((source, *(filtered(random) for _ in range(random.randint(1, 3)))))
    if chance < 0.85:
        return text
    values = " ".join(random.choice(FUNCTIONS) for _ in range(random.randint(0, 3)))
    body = random.choice((text, single(random), "site $f | grep $f", "echo $f > set_ftrace_filter"))
    return f"for f in {values}; do {body}; done"


class Chains:
    """A script of such lines on a machine that has traced something, exported afterwards."""

    name, suffix = "chains", ".sh"

    def case(self, random: Random) -> Case:
        text = "\n".join(chain(random) for _ in range(random.randint(3, 10))) + "\n"
        content = text.encode()
        if random.random() < 0.2:
            content = damage.text(random, content, TOKENS)[:4000]
        return Case(content, f"sh --arch {random.choice(arches.names())} FILE")

    def take(self, case: Case) -> str:
        session = machine(case.about.split()[2])
        text = case.content.decode("utf-8", "surrogateescape")
        with impatient(session):
            Shell(session).execute("echo function_graph > current_tracer; run syscalls")
            status = run_lines(session, text.splitlines(keepends=True))
            exported(session)
        return f"status {status}"


def exported(session: Session) -> None:
    """Export the trace in each format and read it back. Raises `Wrong` or what a reader raises."""
    text = session.boot.array.text()
    json.loads("".join(timeline.timeline(text)))
    rows = [json.loads(row) for row in "".join(records.json_lines(text)).splitlines()]
    table = list(csv.DictReader("".join(records.comma_separated(text)).splitlines()))
    if len(rows) != len(table):
        raise Wrong(f"{len(rows)} lines of JSON, but {len(table)} rows of CSV")
    if stacks.has_calls(text):
        json.loads("".join(stacks.speedscope(text, "fuzz")))
        for row in "".join(stacks.folded(text)).splitlines():
            int(row.rpartition(" ")[2])
