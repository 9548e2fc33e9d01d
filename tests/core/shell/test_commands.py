"""The commands, each checked on the session it changed."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dynftrace.core.session.session import Session
from dynftrace.core.shell.outcome import NotWritten, Outcome, ReadFile
from dynftrace.core.shell.shell import Shell

from ...support.keystone import needs_keystone

Sh = Callable[[str], str]


@pytest.fixture
def shell(session: Session) -> Shell:
    return Shell(session)


def test_cat_continues_after_a_missing_file(shell: Shell) -> None:
    outcome = shell.execute("cat current_tracer gone tracing_on")
    read = (ReadFile("current_tracer"), ReadFile("tracing_on"))
    assert outcome == Outcome("nop\n1\n", "cat: gone: No such file or directory\n", 1, read)


def test_echo_joins_and_redirects_its_arguments(shell: Shell, sh: Sh) -> None:
    assert sh("echo a  'b  c'; echo -n d; echo") == "a b  c\nd\n"
    assert sh("echo -n 0 > tracing_on; cat tracing_on") == "0\n"
    sh("echo 1 > tracing_on; cat tracing_on > trace_marker")
    assert sh("cat trace").endswith("tracing_mark_write: 1\n")
    assert shell.execute("echo x > README") == Outcome(
        error="dynftrace: write error: Invalid argument\n",
        status=1,
        effects=(NotWritten("README", errno.EINVAL, emptied=True),),
        changed=True,
    )
    assert shell.execute("echo x > per_cpu") == Outcome(
        error="dynftrace: per_cpu: Is a directory\n",
        status=1,
        effects=(NotWritten("per_cpu", errno.EISDIR, emptied=True),),
        changed=True,
    )


def test_ls_lists_files_and_globs_match_paths(session: Session, sh: Sh) -> None:
    assert sh("ls").split() == session.boot.tracefs.listdir()
    assert sh("ls per_cpu") == "cpu0\ncpu1\n"
    assert sh("ls -l tracing_on") == "-rw-r--r-- root root tracing_on\n"
    assert sh("ls per_cpu/cpu*/s?ats") == "per_cpu/cpu0/stats\nper_cpu/cpu1/stats\n"
    assert sh("cat /sys/kernel/tracing/current*") == "nop\n"
    assert sh("ls per_cpu/cpu0 per_cpu/cpu1").startswith("per_cpu/cpu0:\nbuffer_size_kb\n")


def test_ls_reports_a_missing_file(shell: Shell) -> None:
    outcome = shell.execute("ls no*")
    assert outcome.status == 2
    assert outcome.error == "ls: cannot access 'no*': No such file or directory\n"


def test_modules_are_loaded_listed_and_unloaded(shell: Shell, sh: Sh) -> None:
    assert sh("lsmod") == "Module                  Size  Used by\n"
    assert "Unknown symbol in module" in shell.execute("insmod usbhub").error
    sh("insmod usbcore; insmod usbhub")
    lines = sh("lsmod").splitlines()[1:]
    assert re.fullmatch(r"usbhub {13} +\d+  0", lines[0])
    assert re.fullmatch(r"usbcore {12} +\d+  1 usbhub", lines[1])
    assert shell.execute("insmod --far crashy").error == (
        "insmod: x86_64 has a single module area: --far does not apply\n"
    )
    assert shell.execute("insmod usbcore").error.startswith(
        "insmod: ERROR: could not insert module usbcore: File exists\n"
    )
    assert shell.execute("rmmod usbcore").error == (
        "rmmod: ERROR: Module usbcore is in use by: usbhub\n"
    )
    sh("rmmod usbhub usbcore")
    assert shell.execute("rmmod usbcore").error == (
        "rmmod: ERROR: Module usbcore is not currently loaded\n"
    )
    assert shell.execute("insmod /no/such/module.ko").error.startswith(
        "insmod: ERROR: could not insert module /no/such/module.ko: No such file"
    )


def test_run_starts_workloads(shell: Shell, sh: Sh) -> None:
    assert "syscalls" in sh("run").split()
    sh("run syscalls 2")
    assert shell.execute("run usb").error == "run: usb: No such device\n"
    outcome = shell.execute("run party")
    assert outcome.status == 1
    assert outcome.error.startswith("run: unknown workload 'party' (choose from: boot, ")
    assert shell.execute("run boot 0").status == 2
    assert shell.execute("run boot many").status == 2


def test_sleep_lets_virtual_time_pass(session: Session, shell: Shell, sh: Sh) -> None:
    for text, ns in (("1", 10**9), ("0.25", 250_000_000), (".5", 500_000_000), ("0", 0)):
        before = session.now
        assert sh(f"sleep {text}") == ""
        assert session.now == before + ns
    for text in ("61", "-1", "nan", "1e3", "0x1", "1s", "", "1 1"):
        outcome = shell.execute(f"sleep {text}")
        assert outcome.status == 2, text
        assert outcome.error.endswith("usage: sleep SECONDS\n")


def test_sleep_reports_stopped_cpus(session: Session, shell: Shell) -> None:
    session.poke(session.address_of("tick_periodic"), b"\x0f\x0b")
    outcome = shell.execute("sleep 1")
    assert outcome.status == 1
    assert outcome.error.startswith("sleep: CPU ")
    assert shell.execute("sleep 1; sleep 1").error.endswith("sleep: no CPU is running\n")


def test_call_prints_the_result(shell: Shell, sh: Sh) -> None:
    assert re.fullmatch(r"nr_running = 0x\d+ \(\d+\)\n", sh("call nr_running"))
    assert shell.execute("call nosuch").error == "call: unknown symbol 'nosuch'\n"
    assert shell.execute("call nr_running x").status == 2
    assert shell.execute("call nr_running 1 2 3 4 5 6 7").status != 0
    assert shell.execute(f"call nr_running {2**64}").status == 2


@needs_keystone
def test_poke_changes_what_the_guest_executes(session: Session, shell: Shell, sh: Sh) -> None:
    ip = session.boot.kallsyms.address("nr_running")
    assert ip is not None
    shown = sh("poke nr_running+5 'mov eax, 0x2a; ret'")
    assert "before" in shown and "after" in shown and "mov eax, 0x2a" in shown
    assert session.boot.machine.memory.read(ip + 5, 6) == bytes.fromhex("b82a000000c3")
    assert sh("call nr_running") == "nr_running = 0x2a (42)\n"
    sh("poke nr_running+5 b8 07 00 00 00 0xc3")
    assert sh("call nr_running") == "nr_running = 0x7 (7)\n"


@pytest.mark.parametrize(
    "command",
    [
        "poke",
        "poke schedule",
        "poke nosuch nop",
        "poke 0x10 90",
        "poke schedule+x 90",
        "poke schedule 'frobnicate rax'",
        "poke schedule 0x",
        "poke schedule ''",
        "poke ffffffffffffffff 9090",
    ],
)
def test_invalid_pokes_are_refused(session: Session, shell: Shell, command: str) -> None:
    before = session.boot.machine.memory.read(session.address_of("schedule"), 32)
    outcome = shell.execute(command)
    assert outcome.status != 0 and outcome.error.startswith("poke: ")
    assert "Traceback" not in outcome.error
    assert session.boot.machine.memory.read(session.address_of("schedule"), 32) == before


@needs_keystone
@pytest.mark.parametrize(
    "command",
    [
        "poke schedule bxl 0",
        "poke 'schedule' nop\\;   bxl 0x40",
        "site schedule; poke schedule 'nop; bxl 1'",
        "poke schedule \"nop; \"'bxl' 1",
    ],
)
def test_a_wrong_instruction_is_found_in_the_text_as_typed(shell: Shell, command: str) -> None:
    outcome = shell.execute(command)
    assert outcome.status == 1
    assert outcome.wrong == command.index("bxl")


def test_dump_shows_words_and_what_they_point_to(session: Session, sh: Sh) -> None:
    memory = session.boot.machine.memory
    ip, place = session.address_of("schedule"), session.port.facts.map.direct_map + 0x100
    memory.write(place, (ip + 5).to_bytes(8, "little") + bytes(8))
    shown = memory.read(place, 8).hex(" ")
    assert sh(f"dump 0x{place:x} 2").splitlines() == [
        f"{place:016x}  {shown}  {ip + 5:016x}  {session.boot.kallsyms.format(ip + 5)}",
        f"{place + 8:016x}  00 00 00 00 00 00 00 00  0000000000000000",
    ]
    lines = sh("dump schedule").splitlines()
    assert [int(line.split()[0], 16) for line in lines] == [ip, ip + 8, ip + 16, ip + 24]
    assert sh("dump schedule+0x8 1") == lines[1] + "\n"
    assert bytes.fromhex(lines[0][18:41]) == memory.read(ip, 8)
    assert len(sh("dump schedule 4096").splitlines()) == 4096


def test_dump_stops_at_the_end_of_memory(session: Session, shell: Shell) -> None:
    memory, end = session.boot.machine.memory, session.address_of("schedule")
    while (region := memory.region_at(end)) is not None:
        end = region.end
    outcome = shell.execute(f"dump 0x{end - 12:x}")
    assert outcome.status == 1 and len(outcome.output.splitlines()) == 1
    assert outcome.error == f"dump: guest memory at 0x{end - 4:x} (8 bytes): not mapped\n"


@pytest.mark.parametrize(
    ("command", "status", "error"),
    [
        ("dump", 2, "missing argument"),
        ("dump schedule 1 2", 2, "unexpected argument '2'"),
        ("dump schedule 0", 2, "N must be at least 1, not 0"),
        ("dump schedule 4097", 2, "N must be at most 4096, not 4097"),
        ("dump schedule x", 2, "N must be a number, not 'x'"),
        ("dump nosuch", 1, "unknown symbol 'nosuch'"),
        (
            "dump schedule+",
            1,
            "invalid address 'schedule+': write a number or 'SYMBOL[+OFFSET] [MODULE]'",
        ),
        ("dump schedule+x", 1, "invalid offset 'x': write a number"),
        ("dump ffffffffffffffff", 1, "guest memory at 0xffffffffffffffff (8 bytes): not mapped"),
        ("dump 0x10000000000000000", 1, "'0x10000000000000000' is outside the address space"),
    ],
)
def test_invalid_dumps_are_refused(shell: Shell, command: str, status: int, error: str) -> None:
    outcome = shell.execute(command)
    assert (outcome.status, outcome.output) == (status, "")
    assert outcome.error.splitlines()[0] == f"dump: {error}"


def test_a_poked_site_is_refused_and_not_overwritten(
    session: Session, shell: Shell, sh: Sh
) -> None:
    sh("poke schedule 90; echo schedule > set_ftrace_filter")
    ip = session.address_of("schedule")
    spoiled = session.boot.machine.memory.read(ip, 5)
    outcome = shell.execute("echo function > current_tracer")
    assert outcome.status == 1
    assert "ftrace failed to modify" in outcome.error and "schedule" in outcome.error
    assert session.boot.machine.memory.read(ip, 5) == spoiled
    report = sh("dmesg")
    assert "ftrace bug" in report and "expected: 0f:1f:44:00:00" in report
    assert "failed" in sh("site schedule") and "!" in sh("site schedule")
    assert shell.execute("echo function_graph > current_tracer").error == (
        "dynftrace: write error: No such device\n"
    )
    sh("reboot; echo function > current_tracer")


def test_site_and_tramp_show_a_call(shell: Shell, sh: Sh) -> None:
    assert shell.execute("site nosuch").status == 1
    assert re.findall(r"^(\w+)  ip ", sh("site schedule kfree"), re.M) == ["schedule", "kfree"]
    assert "ftrace_stub" in sh("tramp")
    assert "function_trace_call" in sh("echo function > current_tracer; tramp")
    assert shell.execute("tramp nosuch").status == 2
    assert "usbcore" in sh("insmod usbcore; tramp usbcore")


def test_step_and_regs_show_a_cpu(session: Session, shell: Shell, sh: Sh) -> None:
    before = session.boot.machine.registers(1)
    lines = sh("step 4 1").splitlines()
    assert sum(line.startswith("cpu1  ") for line in lines) == 5
    changed = [line for line in lines if line.startswith("    ")]
    assert len(changed) >= 4 and max(map(len, changed)) <= 80
    assert any(re.search(r"\w [0-9a-f]+->[0-9a-f]+  .*\+[1-9] ns$", line) for line in changed)
    assert session.boot.machine.registers(1) != before
    pc = session.boot.machine.registers(1)[session.port.facts.abi.pc.name]
    assert f"{pc:016x}" in sh("regs 1")
    assert sh("regs").count("cpu0") == 1 and sh("regs").count("cpu1") == 1
    assert sh("step").startswith("cpu1  "), "regs must show the CPU that was stepped last"
    for command in ("step 0", "step x", "step 1 2", "step 1 -1", "regs 2", "step 1000001"):
        assert shell.execute(command).status == 2


def test_help_lists_every_command(shell: Shell, sh: Sh) -> None:
    lines = sh("help").splitlines()
    assert [line.split()[0] for line in lines] == list(shell.commands)
    assert max(map(len, lines)) <= 80
    assert "usage: poke" in sh("help poke")
    for name in shell.commands:
        assert max(map(len, sh(f"help {name}").splitlines())) <= 80
    assert max(map(len, sh("cat README").splitlines())) <= 80
    assert shell.execute("help nonsense").status == 2


def test_commands_paths_and_names_are_completed(shell: Shell, session: Session) -> None:
    def words(text: str) -> tuple[str, ...]:
        return shell.complete(text).words

    assert words("in") == ("insmod",)
    assert words("cat tracing_o") == ("tracing_on",)
    assert words("cat per_cpu/cpu") == ("per_cpu/cpu0/", "per_cpu/cpu1/")
    assert words("echo schedule > set_ftrace_f") == ("set_ftrace_filter",)
    assert words("echo x; run sys") == ("syscalls",)
    assert "schedule" in words("site sched") and "schedule" in words("echo sched")
    assert "schedule" in words("dump sched")
    assert words("insmod usbc") == ("usbcore",)
    assert words("rmmod ") == ()
    assert "nop" in words("echo no")
    assert words("echo schedule:trace") == ("schedule:traceoff", "schedule:traceon")
    assert words("echo !v*:s") == ("!v*:snapshot", "!v*:stacktrace")
    completion = shell.complete("cat trac")
    assert completion.start == 4


def test_insmod_accepts_a_path(tmp_path: Path, session: Session, sh: Sh) -> None:
    source = session.port.images() / "usbcore.ko"
    path = tmp_path / "with space.ko"
    path.write_bytes(source.read_bytes())
    assert "usbcore" in sh(f"insmod '{path}'; lsmod")
