"""A session as a whole: its commands, its repeatability, and reboot."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import capstone
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dynftrace import arches
from dynftrace.core.errors import DynftraceError, GuestInterrupted, TracefsError, UsageError
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

Sh = Callable[[str], str]

FLOW = (
    "site schedule; echo schedule > set_ftrace_filter; echo function > current_tracer; "
    "site schedule; run syscalls; cat trace; echo nop > current_tracer; site schedule"
)


def open_session(**options: object) -> Session:
    return Session.open(arches.load(arches.DEFAULT), MachineSpec(**options))  # type: ignore[arg-type]


def instruction(session: Session, address: int) -> tuple[str, str]:
    """Return what Capstone decodes at `address`."""
    engine = session.port.facts.engine
    decoder = capstone.Cs(engine.cs_arch, engine.cs_mode)
    insn = next(decoder.disasm(session.boot.machine.memory.read(address, 5), address))
    return insn.mnemonic, insn.op_str


def kernel_text(session: Session) -> bytes:
    """Return every executable section of the kernel."""
    return b"".join(
        session.boot.machine.memory.read(section.address, section.size)
        for section in session.image.sections
        if section.loaded and section.executable
    )


def test_a_function_is_filtered_traced_and_restored(session: Session, sh: Sh) -> None:
    ip = session.boot.kallsyms.address("schedule")
    fentry = session.boot.kallsyms.address("__fentry__")
    caller = session.boot.ftrace.entry["ftrace_caller"]
    assert ip is not None and fentry is not None
    compiled = b"\xe8" + ((fentry - ip - 5) % 2**32).to_bytes(4, "little")
    call = b"\xe8" + ((caller - ip - 5) % 2**32).to_bytes(4, "little")
    assert instruction(session, ip)[0] == "nop"

    shown = sh("site schedule")
    assert compiled.hex(" ") in shown and "call __fentry__" in shown
    assert re.search(r"now +0f 1f 44 00 00\s+nop", shown)

    sh("echo schedule > set_ftrace_filter; echo function > current_tracer")
    assert instruction(session, ip) == ("call", hex(caller))
    shown = sh("site schedule")
    assert re.search(rf"now +{call.hex(' ')}\s+call ftrace_caller", shown)
    assert "enabled  1 user" in shown

    sh("run syscalls")
    events = [line for line in sh("cat trace").splitlines() if not line.startswith("#")]
    assert len(events) > 5 and all(": schedule <-" in line for line in events)
    parents = {line.split("<-")[1] for line in events}
    assert parents <= set(session.function_names()) | {
        s.name for s in session.boot.kallsyms.functions()
    }
    assert "schedule_timeout" in parents

    sh("echo nop > current_tracer")
    assert instruction(session, ip)[0] == "nop"
    assert re.search(r"now +0f 1f 44 00 00\s+nop", sh("site schedule"))


@pytest.mark.parametrize("method", ["stop_machine", "breakpoint", "none"])
@pytest.mark.parametrize("cpus", [1, 4])
def test_tracing_works_with_every_method_and_number_of_cpus(method: str, cpus: int) -> None:
    session = open_session(cpus=cpus, patch=method)
    before = kernel_text(session)
    outcome = Shell(session).execute(
        "echo function > current_tracer; run boot; echo nop > current_tracer"
    )
    # With `none` a torn instruction may kill a CPU: that is what it demonstrates.
    if method != "none":
        assert (outcome.error, outcome.status) == ("", 0)
        assert kernel_text(session) == before
        assert not session.boot.machine.oopses


def test_two_processes_produce_the_same_bytes() -> None:
    command = [sys.executable, "-m", "dynftrace", "sh", "-c", FLOW + "; dmesg; cat per_cpu/*/stats"]
    pkg = Path(sys.modules["dynftrace"].__file__ or "").resolve().parents[1]
    runs = [
        subprocess.run(
            command,
            capture_output=True,
            check=True,
            env={"PYTHONPATH": str(pkg), "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert runs[0].count(b"schedule <-") > 5


def test_both_clocks_produce_the_same_trace() -> None:
    texts = [
        Shell(open_session(native_clock=native)).execute(FLOW + "; dmesg").output
        for native in (None, False)
    ]
    assert texts[0] == texts[1]


def test_reboot_restores_the_initial_state() -> None:
    session = open_session(modules=("usbcore",))
    shell = Shell(session)
    state = "lsmod; cat current_tracer set_ftrace_filter buffer_size_kb; dmesg"
    first = shell.execute(f"{state}; {FLOW}").output
    assert "usbcore" in first and "nop\n####" in first
    shell.execute("insmod usbhub; poke schedule 90; echo function > current_tracer; reboot")
    assert shell.execute(f"{state}; {FLOW}").output == first


def test_a_stop_from_another_thread_ends_a_run(session: Session) -> None:
    import threading

    timer = threading.Timer(0.1, session.stop)
    timer.start()
    with pytest.raises(GuestInterrupted):
        session.run_workload("syscalls", 10_000_000)
    timer.join()
    # The interrupted workload goes on in the background; other requests are still served.
    assert session.run_workload("boot") == 1
    timer = threading.Timer(0.1, session.stop)
    timer.start()
    with pytest.raises(GuestInterrupted, match="the sleep was interrupted"):
        session.sleep(10**15)
    timer.join()


def test_calls_return_what_the_function_returns(session: Session) -> None:
    assert session.call("nr_running") >= 1
    version = session.address_of("vermagic")
    text = session.boot.machine.memory.read(version, 100).split(b"\0")[0]
    assert session.call("strlen", [version]) == len(text) > 5


@pytest.mark.parametrize(
    ("text", "offset"), [("schedule", 0), ("schedule+5", 5), ("schedule+0x10", 16)]
)
def test_addresses_are_parsed(session: Session, text: str, offset: int) -> None:
    assert session.address_of(text) == (session.boot.kallsyms.address("schedule") or 0) + offset


def test_numbers_are_addresses(session: Session) -> None:
    assert session.address_of("ffffffff81000000") == 0xFFFFFFFF81000000
    assert session.address_of("0xffffffff81000000+8") == 0xFFFFFFFF81000008


@pytest.mark.parametrize("text", ["", "nosuchsymbol", "schedule+", "schedule+x", "-1", "1" * 30])
def test_an_invalid_address_is_refused(session: Session, text: str) -> None:
    with pytest.raises(UsageError):
        session.address_of(text)


def test_an_unknown_workload_is_refused_with_the_choices(session: Session) -> None:
    with pytest.raises(UsageError, match=r"workload 'party' .choose from: boot, syscalls, "):
        session.run_workload("party")


_WORDS = st.sampled_from(["*", "schedule", "vfs_*", "*lock*", "usb_*", "!kfree", "kfree"])
_STEPS = st.one_of(
    st.tuples(st.sampled_from(["filter", "notrace", "filter+", "notrace+"]), _WORDS),
    st.tuples(st.just("tracer"), st.sampled_from(["function", "nop"])),
    st.tuples(st.sampled_from(["insmod", "rmmod"]), st.sampled_from(["usbcore", "usbhub"])),
    st.tuples(st.just("run"), st.sampled_from(["boot", "syscalls"])),
    st.tuples(st.just("poke"), st.sampled_from(["schedule+5", "kfree+5", "schedule", "vfs_read"])),
)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(_STEPS, max_size=8))
def test_any_commands_can_be_undone_to_the_text_after_boot(steps: list[tuple[str, str]]) -> None:
    """After any commands, without tracer and filter, the text is as after boot.

    The test undoes pokes itself. If a poke disabled ftrace, the sites that were
    calls at that moment stay calls, and nothing else differs.
    """
    session = open_session()
    before = kernel_text(session)
    pokes: list[tuple[int, bytes]] = []
    for verb, what in steps:
        try:
            if verb == "tracer":
                session.boot.tracefs.write("current_tracer", what)
            elif verb == "run":
                # The guest must not run the poked bytes.
                if not pokes:
                    session.run_workload(what)
            elif verb == "insmod":
                if not pokes:
                    session.insmod(what)
            elif verb == "rmmod":
                if not pokes:
                    session.rmmod(what)
            elif verb == "poke":
                address = session.address_of(what)
                pokes.append((address, session.poke(address, b"\xcc")))
            else:
                path = f"set_ftrace_{verb.rstrip('+')}"
                session.boot.tracefs.write(path, what, append=verb.endswith("+"))
        except DynftraceError:
            pass
    died = session.boot.ftrace.disabled
    try:
        session.boot.tracefs.write("current_tracer", "nop")
        for path in ("set_ftrace_filter", "set_ftrace_notrace"):
            session.boot.tracefs.write(path, "")
    except DynftraceError:
        died = True
    for address, old in reversed(pokes):
        session.poke(address, old)
    if not died:
        assert kernel_text(session) == before
    else:
        assert session.boot.ftrace.disabled and pokes
        with pytest.raises(TracefsError):
            session.boot.tracefs.write("set_ftrace_filter", "schedule")


def test_a_kernel_must_be_an_executable() -> None:
    images = arches.load(arches.DEFAULT).images()
    with pytest.raises(DynftraceError, match="relocatable"):
        open_session(kernel=images / "usbcore.ko")
