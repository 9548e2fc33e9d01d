"""What a user types: shell scripts, one line of assembly, keys at the console."""

from __future__ import annotations

import asyncio
from random import Random

from textual._xterm_parser import XTermParser

from dynftrace import arches
from dynftrace.core.session.session import Session
from dynftrace.core.shell.commands import commands
from dynftrace.core.shell.shell import Shell
from dynftrace.tui.cli.prompt import run_lines
from dynftrace.tui.console.app import ConsoleApp
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.pictures.picture import settle

from . import damage
from .images import machine
from .kind import Case, impatient

FUNCTIONS = """
    schedule vfs_read usb_ifnum_to_if kfree sys_open * sched* f?r[k ftrace_caller _mcount
    ftrace_stub __fentry__ do_exit ftrace_caller.stub
""".split()  # noqa: SIM905
PLACES = """
    schedule schedule+4 vfs_read+0x1 ffffffff81000000 0 -1 c0000000 ftrace_call 80000000
    host_request jiffies ftrace_caller ftrace_caller+8 _start
""".split()  # noqa: SIM905
WORKLOADS = ["syscalls", "pipes", "usb", "timers", "exec", "nothing"]
FILES = """
    current_tracer set_ftrace_filter set_ftrace_notrace set_graph_function trace set_ftrace_pid
    dynamic_events events/enable events/syscalls/enable snapshot function_profile_enabled
    trace_stat/function0 tracing_on buffer_size_kb README trace_options options/func_stack_trace
    trace_pipe per_cpu/cpu0/trace ../x . /proc/sys/kernel/stack_tracer_enabled stack_trace
    trace_clock max_graph_depth touched_functions enabled_functions dyn_ftrace_total_info
    events/fprobes/enable /proc/sys/kernel/ftrace_enabled /proc/kallsyms
    available_filter_functions trace_marker
""".split()  # noqa: SIM905
TEXTS = """
    function function_graph nop 0 1 2 vfs_read:stacktrace:2 do_exit:traceoff -:fire !vfs_read
    vfs_read:snapshot schedule:dump *:mod:usbcore global 99999999 func_stack_trace
    nofunc_stack_trace ~1 f:x
""".split()  # noqa: SIM905
TEXTS += ["f:fire call_timer_fn fn=$arg2:symbol", "f:r vfs_read%return $retval"]
TEXTS += ["f:" + "a" * 300 + " schedule", "f:y vfs_read $arg9:x64[3]"]
WORDS = """
    --far usbcore usbhub crashy usbcore-near usbcore-trampoline /dev/zero skip flush
    stop_machine breakpoint none hit 0 1 2 3 9 0x10 crashy_null nop ret 9090909090 jmp sleep
""".split()  # noqa: SIM905
WORDS += ["90 90", "b .", "call schedule"]
SAFE = 60
"""Largest number a script gives `step`; a larger one is a long wait that ctrl+c ends."""


def line(random: Random, names: list[str]) -> str:
    """Return one command with arguments that it may or may not accept."""
    name = random.choice(names)
    if name == "echo" or random.random() < 0.25:
        text, file = random.choice(TEXTS + FUNCTIONS), random.choice(FILES)
        return f"echo '{text}' {random.choice(('>', '>', '>>'))} {file}"
    pool = {
        "run": WORKLOADS,
        "cat": FILES,
        "ls": FILES,
        "poke": PLACES,
        "dump": PLACES,
        "until": PLACES,
        "bits": PLACES,
        "insmod": WORDS[:6],
        "rmmod": WORDS[:6],
        "sleep": ["0", "0.001", "0.01", "1e3", "61", "-1", ".5."],
        "step": [str(random.randint(0, SAFE)), "x", "-1"],
        "call": FUNCTIONS,
    }.get(name, FUNCTIONS + WORDS)
    words = [random.choice(pool)] if random.random() < 0.9 else []
    words += [
        random.choice(WORDS + WORKLOADS + ["2"]) for _ in range(random.choice((0, 0, 1, 1, 2)))
    ]
    return " ".join((name, *words))


class Script:
    """A script of commands, some of them damaged, on a machine of any port."""

    name, suffix = "script", ".sh"

    def case(self, random: Random) -> Case:
        arch = random.choice(arches.names())
        names = [*commands(), "run", "insmod", "rmmod", "poke", "until", "call"]
        text = "\n".join(line(random, names) for _ in range(random.randint(3, 14))) + "\n"
        content = text.encode()
        if random.random() < 0.3:
            tokens = [
                ";",
                "&&",
                "||",
                "|",
                "'",
                '"',
                "\\",
                ">",
                ">>",
                "#",
                "\n",
                "(",
                "$(",
                "`",
                "*",
                "[",
            ]
            content = damage.text(random, content, tokens)
        # Longer scripts find nothing more, and take their time rightly.
        return Case(b"\n".join(content[:4000].split(b"\n")[:60]), f"sh --arch {arch} FILE")

    def take(self, case: Case) -> str:
        session = machine(case.about.split()[2])
        text = case.content.decode("utf-8", "surrogateescape")
        shell = Shell(session)
        for end in (3, 17, len(text) // 2):
            shell.complete(text[:end])
        with impatient(session):
            status = run_lines(session, text.splitlines(keepends=True))
        if session.boot.machine.oopses:
            return "ran to an oops"
        return f"status {status}"


class Assembly:
    """One typed line of assembly, assembled and written."""

    name, suffix = "assembly", ".s"

    def case(self, random: Random) -> Case:
        arch = random.choice(arches.names())
        session = machine(arch)
        place = session.boot.ftrace.records.ip_of(0) if len(session.boot.ftrace.records) else None
        start = place or session.address_of("schedule")
        insns = session.instructions(start, 256)
        text = "; ".join(
            session.boot.disassembler.text(random.choice(insns))
            for _ in range(random.randint(1, 3))
        )
        tokens = [
            ";",
            ",",
            "(",
            ")",
            "[",
            "]",
            "%",
            "$",
            "#",
            ".",
            "0x",
            "-",
            "+",
            "*",
            " ",
            "lock ",
        ]
        tokens += [
            "rep ",
            "schedule",
            ".byte 1",
            ".org ",
            ".rept ",
            "label:",
            "st0",
            "xmm0",
            "{k1}",
            "%rax",
        ]
        return Case(damage.text(random, text.encode(), tokens)[:20_000], f"{arch} at schedule")

    def take(self, case: Case) -> str:
        session = machine(case.about.split()[0])
        address = session.address_of("schedule")
        code = session.assemble(case.content.decode("utf-8", "surrogateescape"), address)
        session.poke(address, code[:64])
        return "assembled"


KEYS = [
    *"jkgGtrcRbwsnofid/:;?1234567zxBFE+-^ \t\r\x7f\x1b*",
    "\x1b[A",
    "\x1b[B",
    "\x1b[5~",
    "\x1b[6~",
]
KEYS += [
    "\x1b[<0;20;10M",
    "\x1b[<0;20;10m",
    "\x1b[<64;20;10M",
    "\x1bOP",
    "\x1b[15~",
    "\x10",
    "\x1b[200~",
]
KEYS += [
    "\x1b[201~",
    "\x1b[<0;999;999M",
    "\x1b[",
    "\x1b]",
    "\x1b[?2026;1$y",
    "\x1b[99999999999999u",
]
COMMAND = [
    ":run syscalls\r",
    ":echo function > current_tracer\r",
    ":insmod usbcore\r",
    ":poke vfs_read 90\r",
]
COMMAND += [
    "/sched\r",
    ":back\r",
    ":reboot\r",
    ":step 5\r",
    ":until vfs_read syscalls\r",
    ":call crash\r",
]
SIZES = [(120, 40), (80, 24), (20, 5), (200, 60), (1, 1)]


class Keys:
    """What a terminal sends to the console: keys, the mouse, pastes, and damaged sequences."""

    name, suffix = "keys", ".txt"

    def case(self, random: Random) -> Case:
        text = "".join(random.choice(COMMAND if random.random() < 0.2 else KEYS) for _ in range(25))
        content = text.encode()
        if random.random() < 0.4:
            content = damage.text(
                random, content, [*KEYS, "\x1b[<", ";", "M", "~", "\x1b[I", "\x1b[O"]
            )
        # A console that has ended takes no more keys; q and ctrl+q are in a test of their own.
        content = content.replace(b"q", b"j").replace(b"\x11", b"j")[:400]
        return Case(content, f"size {random.randrange(len(SIZES))}")

    def take(self, case: Case) -> str:
        size = SIZES[int(case.about.split()[1])]
        session = machine("x86_64")
        with impatient(session):
            return asyncio.run(self._typed(session, case.content, size))

    async def _typed(self, session: Session, content: bytes, size: tuple[int, int]) -> str:
        app = ConsoleApp(lambda: SessionDriver(session))
        async with app.run_test(size=size, notifications=True) as pilot:
            await settle(pilot)
            parser = XTermParser()
            for message in parser.feed(content.decode(errors="replace")):
                assert app._driver is not None
                app._driver.process_message(message)
                await asyncio.sleep(0.002)
            # Not `settle`: the machine may be running, and never becomes idle then.
            await asyncio.sleep(0.1)
            shown = f"{len(app.screen_stack)} screens"
        if app.return_code:
            raise RuntimeError(f"the console ended with {app.return_code}")
        return shown
