"""The files below /proc."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable

import pytest

from dynftrace.core.errors import TracefsError
from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell

from ...support.user import executor, opened

WATCHDOG = "/proc/sys/kernel/nmi_watchdog"


def test_the_watchdog_sends_an_nmi_to_each_cpu_every_ten_seconds(
    session: Session, sh: Callable[[str], str]
) -> None:
    assert sh(f"cat {WATCHDOG}") == "0\n"
    start = [vcpu.ticks / 1e9 for vcpu in session.boot.machine.vcpus]
    shown = sh(f"echo 1 > {WATCHDOG}; cat {WATCHDOG}; nmi")
    times = [float(text) for text in re.findall(r"next at ([\d.]+)", shown)]
    assert shown.startswith("1\n")
    assert times == pytest.approx([10 + each for each in start], abs=1e-5)
    sh("nmi 0 every 50000; nmi 1 off")
    assert sh(f"cat {WATCHDOG}; echo 0 > {WATCHDOG}; nmi").count("every") == 1
    for text in ("2", "-1", "on"):
        with pytest.raises(TracefsError) as caught:
            session.boot.tracefs.write(WATCHDOG, text)
        assert caught.value.errno == errno.EINVAL


ENABLED = "/proc/sys/kernel/ftrace_enabled"


@pytest.mark.parametrize("arch", ["x86_64", "ppc64"])
def test_without_ftrace_enabled_all_sites_are_nops(arch: str) -> None:
    session = opened(arch)
    sh = executor(session)
    records, memory = session.boot.ftrace.records, session.boot.machine.memory

    def text() -> bytes:
        found, _ = memory.gather(records.table["ip"], session.port.facts.sites.size)
        return found.tobytes()

    nops = text()
    sh("echo function_graph > current_tracer; echo '*lock*' > set_ftrace_notrace")
    traced = text()
    assert (
        sh(f"cat {ENABLED}; echo 0 > {ENABLED}; cat {ENABLED}; cat enabled_functions") == "1\n0\n"
    )
    assert text() == nops != traced
    sh("echo > trace; run syscalls")  # which lets calls return that are still traced
    assert "{" not in sh("echo > trace; run syscalls; cat trace")
    sh(f"echo nop > current_tracer; echo function_graph > current_tracer; echo 2 > {ENABLED}")
    assert text() == traced
    assert "schedule" in sh(f"cat {ENABLED}; run syscalls; cat trace")


def test_kallsyms_has_the_kernel_and_its_modules() -> None:
    session = opened(modules=("usbcore",))
    lines = executor(session)("cat /proc/kallsyms").splitlines()
    assert lines == sorted(lines, key=lambda line: line.split()[0])
    for name, owner in (("schedule", ""), ("usb_alloc_dev", "\t[usbcore]")):
        address = session.boot.kallsyms.address(name)
        assert f"{address:016x} T {name}{owner}" in lines


DUMP = "/proc/sys/kernel/ftrace_dump_on_oops"


@pytest.mark.parametrize(("mode", "cpus"), [("0", ""), ("1", "01"), ("2", "its")])
def test_an_oops_dumps_the_trace_on_request(
    session: Session, sh: Callable[[str], str], mode: str, cpus: str
) -> None:
    sh(f"echo {mode} > {DUMP}; echo schedule > set_ftrace_filter")
    sh("echo function > current_tracer; run syscalls; cat per_cpu/cpu1/trace")
    assert Shell(session).execute("call vfs_read 8 8 8").status
    (oops,) = session.boot.machine.oopses
    assert sh(f"cat {DUMP}; cat tracing_on") == f"{mode}\n{int(mode == '0')}\n"
    log = sh("dmesg")
    _, dumped, after = log.partition("Dumping ftrace buffer:")
    assert bool(dumped) == bool(cpus)
    wanted = {str(oops.cpu)} if cpus == "its" else {*cpus}
    assert {*re.findall(r"-\d+ +(\d)\S* +\d+us : schedule", after)} == wanted
