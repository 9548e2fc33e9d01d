"""The stack tracer's files and its switch."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from dynftrace.core.errors import TracefsError
from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell

from ...support.user import at_once

Sh = Callable[[str], str]

SWITCH = "/proc/sys/kernel/stack_tracer_enabled"
NOTHING = """\
        Depth    Size   Location    (0 entries)
        -----    ----   --------
"""


def test_the_files_before_the_first_use(sh: Sh) -> None:
    assert sh(f"cat {SWITCH} stack_max_size") == "0\n0\n"
    text = sh("cat stack_trace")
    assert text.startswith(f"{NOTHING}#\n#  Stack tracer disabled\n#\n")
    assert text.endswith(f"# or 'echo 1 > {SWITCH}'\n#\n")
    assert sh("cat stack_trace_filter") == "#### all functions enabled ####\n"


def test_the_switch_turns_it_on_and_off(session: Session, sh: Sh) -> None:
    at_once(session)
    sh(f"echo 1 > {SWITCH}")
    assert sh("cat stack_trace") == NOTHING
    assert sh("cat enabled_functions").count("->stack_trace_call") == len(
        session.boot.ftrace.records
    )
    sh(f"echo 2 > {SWITCH}; run boot; echo 0x0 > {SWITCH}")
    size, table = sh("cat stack_max_size"), sh("cat stack_trace")
    assert int(size) > 200 and " ret_from_fork+0x" in table.splitlines()[-1]
    assert sh("cat enabled_functions") == ""
    sh("run boot")
    assert (sh("cat stack_max_size"), sh("cat stack_trace")) == (size, table)
    shown = sh("echo 0 > stack_max_size; cat stack_trace")
    assert "Stack tracer disabled" in shown and shown.endswith(table[len(NOTHING) :])


@pytest.mark.parametrize(
    ("path", "text", "number"),
    [
        *((SWITCH, text, errno.EINVAL) for text in ("", "on", "1x", "4294967296")),
        ("stack_max_size", "-1", errno.EINVAL),
        ("stack_max_size", "18446744073709551616", errno.ERANGE),
        ("stack_trace", "0", errno.EINVAL),
        ("stack_trace_filter", "no_function_is_called_so\n", errno.EINVAL),
        ("/proc/sys/kernel/gone", "1", errno.ENOENT),
        ("/proc/sys", "1", errno.EISDIR),
    ],
)
def test_invalid_writes_are_refused(session: Session, path: str, text: str, number: int) -> None:
    with pytest.raises(TracefsError) as caught:
        session.boot.tracefs.write(path, text)
    assert caught.value.errno == number


def test_a_number_with_the_highest_bit_set_is_negative(sh: Sh) -> None:
    assert sh(f"echo {2**64 - 1} > stack_max_size; cat stack_max_size") == "-1\n"


def test_the_switch_outside_tracefs_is_a_file(session: Session, sh: Sh) -> None:
    assert sh("ls /proc /proc/sys/kernel") == (
        "/proc:\nkallsyms\nsys\nversion\n\n"
        "/proc/sys/kernel:\nftrace_dump_on_oops\nftrace_enabled\nnmi_watchdog\nstack_tracer_enabled\n"
    )
    assert sh(f"ls -l {SWITCH}").startswith("-rw-r--r-- root root ")
    assert sh("cat /proc/*/kernel/stack_*; cat /proc/sys/../sys/kernel/stack_tracer_enabled") == (
        "0\n0\n"
    )
    shell = Shell(session)
    for typed, words in (
        ("cat /pro", ("/proc/",)),
        ("echo 1 > /proc/sys/kernel/s", (SWITCH,)),
    ):
        assert shell.complete(typed).words == words
    assert "proc" not in session.boot.tracefs.listdir()


def test_a_reboot_switches_it_off(session: Session, sh: Sh) -> None:
    sh(f"echo 1 > {SWITCH}; echo schedule > stack_trace_filter; run boot")
    assert int(sh("cat stack_max_size"))
    session.reboot()
    test_the_files_before_the_first_use(sh)


def test_rmmod_removes_functions_from_the_filter(session: Session, sh: Sh) -> None:
    sh("insmod usbcore; echo ':mod:usbcore' > stack_trace_filter")
    chosen = sh("cat stack_trace_filter").splitlines()
    assert chosen and all(line.endswith("[usbcore]") for line in chosen)
    sh(f"echo 1 > {SWITCH}; rmmod usbcore")
    assert sh("cat stack_trace_filter; cat enabled_functions") == ""
    sh("echo ':mod:usbhub' > stack_trace_filter; insmod usbcore; insmod usbhub")
    assert "[usbhub]" in sh("cat stack_trace_filter; cat enabled_functions")
