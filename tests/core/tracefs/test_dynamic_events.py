"""dynamic_events and events/: from a definition to the line of a hit."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from dynftrace import arches
from dynftrace.core.abi import FTRACE_OPS_MAX
from dynftrace.core.errors import TracefsError
from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell
from dynftrace.core.trace.select.explorer import TraceExplorer

Sh = Callable[[str], str]


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def whats(text: str) -> list[str]:
    """Return the text after the time of each line of a trace."""
    return [line.split(": ", 1)[1] for line in lines(text)]


@pytest.fixture
def text_in_guest(session: Session) -> int:
    """Return the address of guest bytes that are not digits."""
    section = session.image.section(".rodata")
    assert section is not None
    return section.address


def test_definitions_are_added_listed_and_removed(session: Session, sh: Sh) -> None:
    assert sh("cat dynamic_events") == ""
    fixed = set(session.boot.tracefs.listdir("events"))
    assert sh("cat events/enable") == "0\n"
    sh("echo 'f vfs_read $arg1' > dynamic_events")
    sh("echo 'f:mine/out vfs_write' >> dynamic_events")
    sh("echo '# nothing' >> dynamic_events; echo >> dynamic_events")
    both = "f:fprobes/vfs_read__entry vfs_read arg1=$arg1\nf:mine/out vfs_write\n"
    assert sh("cat dynamic_events") == both
    assert set(session.boot.tracefs.listdir("events")) - fixed == {"fprobes", "mine"}
    assert session.boot.tracefs.listdir("events/mine") == ["enable", "filter", "out"]
    files = ["enable", "filter", "format", "hist", "id", "trigger"]
    assert session.boot.tracefs.listdir("events/mine/out") == files
    sh("echo '-:mine/out' >> dynamic_events")
    assert not session.boot.tracefs.exists("events/mine")
    sh("echo 'f:mine/out vfs_write' > dynamic_events")
    assert sh("cat dynamic_events") == "f:mine/out vfs_write\n"
    sh("echo > dynamic_events")
    assert sh("cat dynamic_events") == ""


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("f nosuch", "No such file or directory: Invalid probed address or symbol: nosuch"),
        ("f vfs_*", "No such file or directory: Invalid probed address or symbol: vfs_*"),
        ("f kfree $arg1:string", "Invalid argument: Unknown type is specified: $arg1:string"),
        ("f:one kfree", "File exists: Given group/event name is already used by another event"),
        ("f:enable kfree", "File exists: Given group/event name is already used"),
        ("-:two", "No such file or directory"),
        ("-:other/one", "No such file or directory"),
        *((line, "Invalid argument") for line in ("-", "-one", "-:", "-f:one", "q one")),
    ],
)
def test_a_refused_definition_changes_nothing(
    session: Session, sh: Sh, line: str, sentence: str
) -> None:
    sh("echo 'f:one schedule' > dynamic_events")
    outcome = Shell(session).execute(f"echo '{line}' >> dynamic_events")
    assert outcome.status == 1
    assert outcome.error.startswith(f"dynftrace: write error: {sentence}")
    assert sh("cat dynamic_events") == "f:fprobes/one schedule\n"


def test_an_enabled_event_is_busy_and_its_switches_agree(session: Session, sh: Sh) -> None:
    sh("echo 'f:a schedule' > dynamic_events; echo 'f:g/b vfs_read' >> dynamic_events")
    before = session.boot.machine.memory.read(session.boot.kallsyms.address("schedule") or 0, 5)
    switches = "cat events/enable events/fprobes/enable events/fprobes/a/enable events/g/enable"
    assert sh(switches) == "0\n0\n0\n0\n"
    sh("echo 1 > events/fprobes/a/enable")
    assert sh(switches) == "X\n1\n1\n0\n"
    shell = Shell(session)
    for command in ("echo '-:a' >> dynamic_events", "echo > dynamic_events"):
        assert "Device or resource busy" in shell.execute(command).error
    assert len(lines(sh("cat dynamic_events"))) == 2
    assert "Invalid argument" in shell.execute("echo 2 > events/enable").error
    sh("echo 1 > events/enable")
    assert sh(switches) == "1\n1\n1\n1\n"
    sh("echo 0 > events/enable; echo > dynamic_events")
    assert sh("cat enabled_functions") == ""
    assert (
        session.boot.machine.memory.read(session.boot.kallsyms.address("schedule") or 0, 5)
        == before
    )


def test_arguments_are_those_of_the_call(session: Session, sh: Sh, text_in_guest: int) -> None:
    sh("echo 'f:parse simple_strtol s=$arg1 low=$arg3:u16 %rdi:s8 at=%rip:symbol' > dynamic_events")
    sh("echo 1 > events/fprobes/parse/enable")
    session.call("simple_strtol", [text_in_guest, 0, 0x2_0003])
    symbol = session.boot.kallsyms.lookup(session.boot.kallsyms.address("simple_strtol") or 0)
    assert symbol is not None
    low = text_in_guest & 0xFF
    assert whats(sh("cat trace")) == [
        f"parse: (simple_strtol+0x0/{symbol.size:#x}) s={text_in_guest:#x} low=3 "
        f"arg3={low - 256 if low > 127 else low} at=simple_strtol+0x5/{symbol.size:#x}"
    ]


def test_two_definitions_of_a_function_and_the_tracer_each_get_the_call(
    session: Session, sh: Sh, text_in_guest: int
) -> None:
    sh("echo 'f:one simple_strtol a=$arg1' > dynamic_events")
    sh("echo 'f:two simple_strtol b=$arg3' >> dynamic_events")
    sh("echo simple_strtol > set_ftrace_filter; echo function > current_tracer")
    sh("echo 1 > events/fprobes/enable")
    assert "call ftrace_regs_caller" in sh("site simple_strtol")
    assert "3 users (global_ops, fprobes:one, fprobes:two)" in sh("site simple_strtol")
    session.call("simple_strtol", [text_in_guest, 0, 7])
    said = [re.sub(r" \(\S+\)", "", what) for what in whats(sh("cat trace"))]
    assert [what.partition(" <-")[0] for what in said] == [
        *("simple_strtol", f"one: a={text_in_guest:#x}", "two: b=0x7")
    ]
    sh("echo 0 > events/fprobes/one/enable; echo > trace")
    session.call("simple_strtol", [text_in_guest, 0, 7])
    assert [what[:4] for what in whats(sh("cat trace"))] == ["simp", "two:"]
    sh("echo 0 > events/fprobes/enable; echo > trace")
    assert "call ftrace_caller" in sh("site simple_strtol")
    session.call("simple_strtol", [text_in_guest, 0, 7])
    assert [what[:4] for what in whats(sh("cat trace"))] == ["simp"]


def test_a_single_remaining_user_is_called_directly(
    session: Session, sh: Sh, text_in_guest: int
) -> None:
    """With one user the slot calls its function, which gets its event id another way."""
    sh("echo 'f:one simple_strtol' > dynamic_events; echo 'f:two simple_strtol' >> dynamic_events")
    sh("echo 1 > events/fprobes/enable; echo 0 > events/fprobes/one/enable")
    assert "->fentry_trace_func" in sh("cat enabled_functions")
    session.call("simple_strtol", [text_in_guest, 0, 7])
    assert [what[:4] for what in whats(sh("cat trace"))] == ["two:"]


def test_events_may_change_while_the_guest_runs(session: Session, sh: Sh) -> None:
    sh("echo 'f:s schedule %rsp' > dynamic_events; echo 'f:r vfs_read $arg3' >> dynamic_events")
    for method in ("stop_machine", "breakpoint"):
        session.boot.ftrace.patcher.method = method
        sh("echo 1 > events/fprobes/enable; run syscalls")
        sh("echo function > current_tracer; run syscalls; echo 0 > events/fprobes/enable")
        sh("run syscalls; echo 1 > events/fprobes/enable; run syscalls")
        sh("echo nop > current_tracer; run syscalls")
        names = {what.split(":")[0] for what in whats(sh("cat trace"))}
        assert names == {"s", "r"}
        sh("echo 0 > events/fprobes/enable")
    assert not session.boot.machine.oopses
    assert not session.boot.ftrace.disabled


def test_the_format_gives_the_offsets_of_the_registers(
    session: Session, sh: Sh, text_in_guest: int
) -> None:
    sh("echo 'f:mine/x simple_strtol a=$arg1 b=%r9:s16 c=%rip:symbol' > dynamic_events")
    text = sh("cat events/mine/x/format")
    number = int(sh("cat events/mine/x/id"))
    assert text.startswith(f"name: x\nID: {number}\nformat:\n")
    assert text.endswith(
        '\nprint fmt: "(%lx) a=0x%Lx b=%d c=%pS", '
        "REC->__probe_ip, REC->rdi, (s16)REC->r9, (void *)REC->rip\n"
    )
    fields = {
        name: (int(offset), int(size))
        for name, offset, size in re.findall(
            r"field:[\w ]+ (\w+);\toffset:(\d+);\tsize:(\d+);", text
        )
    }
    sh("echo 1 > events/mine/enable")
    session.call("simple_strtol", [text_in_guest, 0, 7])
    cpu = next(cpu for cpu in session.boot.ring.cpus if session.boot.ring.in_buffer(cpu))
    data = session.boot.ring.pages(cpu)[0].tobytes()[
        16 + 8 :
    ]  # after the headers of page and event

    def value(name: str) -> int:
        offset, size = fields[name]
        return int.from_bytes(data[offset : offset + size], "little")

    assert value("common_type") == number
    assert value("__probe_ip") == session.boot.kallsyms.address("simple_strtol")
    assert value("rdi") == text_in_guest and value("rdx") == 7
    assert value("rip") == value("__probe_ip") + 5


def test_removing_a_definition_removes_its_hits(session: Session, sh: Sh) -> None:
    sh("echo 'f:one schedule' > dynamic_events; echo 'f:two kfree' >> dynamic_events")
    first = sh("cat events/fprobes/one/id events/fprobes/two/id").split()
    sh("echo 1 > events/fprobes/one/enable; run syscalls; echo 0 > events/fprobes/enable")
    sh("echo '-:two' >> dynamic_events")
    assert lines(sh("cat trace"))
    sh("echo '-:one' >> dynamic_events")
    assert not lines(sh("cat trace"))
    sh("echo 'f:one schedule' >> dynamic_events")
    assert sh("cat events/fprobes/one/id").strip() not in first


def test_a_function_of_a_module_is_probed_until_rmmod(session: Session, sh: Sh) -> None:
    sh("insmod usbcore; echo 'f:u usb_ifnum_to_if n=$arg2:u8' > dynamic_events")
    sh("echo 1 > events/fprobes/enable; run usb; rmmod usbcore")
    assert "u: (" in sh("cat trace")
    sh("echo 0 > events/fprobes/enable")
    outcome = Shell(session).execute("echo 1 > events/fprobes/enable")
    assert "No such file or directory" in outcome.error
    assert sh("cat events/fprobes/enable") == "0\n"
    sh("insmod usbcore; echo 1 > events/fprobes/enable; echo > trace; run usb")
    assert any("usb_ifnum_to_if" in what for what in whats(sh("cat trace")))


def test_more_events_than_the_table_holds_are_ebusy(session: Session, sh: Sh) -> None:
    for number in range(FTRACE_OPS_MAX + 1):
        sh(f"echo 'f:e{number} schedule' >> dynamic_events")
    outcome = Shell(session).execute("echo 1 > events/fprobes/enable")
    assert "Device or resource busy" in outcome.error
    assert sh("cat events/fprobes/enable") == "X\n"
    sh("echo 0 > events/fprobes/enable")
    assert sh("cat enabled_functions") == ""


def test_a_reboot_removes_all_events(session: Session, sh: Sh) -> None:
    sh("echo 'f:e schedule' > dynamic_events; echo 1 > events/fprobes/enable; reboot")
    assert sh("cat dynamic_events enabled_functions") == ""


def test_a_port_that_saves_no_registers_says_so() -> None:
    session = Session.open(arches.load("ppc32"))
    session.boot.tracefs.write("dynamic_events", "f schedule\n")
    with pytest.raises(TracefsError, match="ppc32 has no ftrace_regs_caller"):
        session.boot.tracefs.write("events/fprobes/enable", "1\n")
    assert session.boot.tracefs.read("events/fprobes/enable") == "0\n"


# regs hit


def test_regs_hit_shows_the_saved_registers(session: Session, sh: Sh, text_in_guest: int) -> None:
    shell = Shell(session)
    assert "no event with saved registers" in shell.execute("regs hit").error
    sh("echo 'f:p simple_strtol' > dynamic_events; echo 1 > events/fprobes/enable")
    session.call("simple_strtol", [text_in_guest, 0, 7])
    session.call("simple_strtol", [text_in_guest, 0, 8])
    first, second = lines(sh("cat trace"))
    shown = sh("regs hit").splitlines()
    assert ": ".join(shown[:2]) == second.strip()
    assert shown[2].startswith("called from ")
    values = dict(line.split()[:2] for line in shown[3:])
    names = [register.name for register in session.port.facts.abi.pt_regs]
    assert list(values) == names
    assert values["rdi"] == f"{text_in_guest:016x}" and int(values["rdx"], 16) == 8
    assert (
        next(line for line in shown if " rip " in line).split()[2].startswith("simple_strtol+0x5/")
    )
    time = re.findall(r"\d+\.\d{6}", first)[-1]
    cpu = re.findall(r"\[(\d+)\]", first)[0]
    head = first.strip().partition(": ")[0] + "\n"
    assert sh(f"regs hit {time}").startswith(head)
    assert sh(f"regs hit {time} {int(cpu)}").startswith(head)
    row = len(session.boot.array.text()) - 2
    assert sh(f"regs hit {TraceExplorer(session.boot.array.text()).hit(row)}").startswith(head)
    assert shell.execute("regs hit 0").status == 1
    for wrong in ("regs hit x", "regs hit 1 9"):
        assert shell.execute(wrong).status in (1, 2)


def test_the_same_commands_show_the_same_registers() -> None:
    def once() -> str:
        session = Session.open(arches.load(arches.DEFAULT))
        shell = Shell(session)
        shell.execute("echo 'f vfs_read $arg1' > dynamic_events; echo 1 > events/fprobes/enable")
        return shell.execute("run syscalls; cat trace; regs hit").output

    assert once() == once()
