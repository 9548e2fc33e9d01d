"""kprobe_events: from a definition to the line of a hit, at call sites and at breakpoints."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from tests.support.user import executor

from dynftrace import arches
from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell

Sh = Callable[[str], str]

PROBED = ("x86_64", "i386", "arm64", "arm64-mcount")
"""Ports with breakpoints for kprobes, whose sites are known from the start."""

RETURNS = ("x86_64", "i386", "arm64")
"""Ports with return probes."""


def whats(text: str) -> list[str]:
    """Return the text after the time of each line of a trace."""
    rows = (line for line in text.splitlines() if not line.startswith("#"))
    return [row.split(": ", 1)[1] for row in rows]


def refused(session: Session, command: str) -> str:
    return Shell(session).execute(command).error


def put(session: Session, data: bytes) -> int:
    """Store `data` in the guest; return its address."""
    memory = session.boot.machine.memory
    address = session.boot.port.facts.map.host_stack + (1 << 21)
    memory.map(address, 4096, "text", executable=False)
    memory.write(address, data)
    return address


@pytest.fixture
def text_in_guest(session: Session) -> int:
    """Return the address of a string of the guest."""
    return put(session, b"-1234\0")


def test_definitions_are_added_listed_and_removed(session: Session, sh: Sh) -> None:
    sh("echo 'p vfs_read $arg1' > kprobe_events; echo 'r16:mine/out vfs_write' >> kprobe_events")
    sh("echo 'f:fp schedule' >> dynamic_events; echo 'p:mine/ vfs_open+0x5' >> dynamic_events")
    own = (
        "p:kprobes/p_vfs_read_0 vfs_read arg1=$arg1\nr16:mine/out vfs_write\n"
        "p:mine/p_vfs_open_5 vfs_open+5\n"
    )
    assert sh("cat kprobe_events") == own
    fprobe = "f:fprobes/fp schedule\n"
    assert sorted(sh("cat dynamic_events").splitlines()) == sorted((own + fprobe).splitlines())
    assert session.boot.tracefs.exists("events/mine/out/format")
    sh("echo '-:mine/out vfs_write' >> kprobe_events")
    assert not session.boot.tracefs.exists("events/mine/out")
    sh("echo > kprobe_events")
    assert sh("cat dynamic_events") == fprobe


def test_a_definition_in_use_is_not_removed(session: Session, sh: Sh) -> None:
    sh("echo 'p:a vfs_read' > kprobe_events; echo 1 > events/kprobes/a/enable")
    for command in ("echo > kprobe_events", "echo '-:a' >> kprobe_events"):
        assert "Device or resource busy" in refused(session, command)
    sh("echo 0 > events/kprobes/a/enable; echo > kprobe_events")
    assert sh("cat kprobe_events enabled_functions") == ""


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ("p^100 vfs_read", "Maxactive is not for kprobe"),
        ("r^1a111 vfs_read", "Invalid maxactive number"),
        ("p ^no_such_function", "Invalid probed address or symbol"),
        ("p ^vfs_read+0xffffffff", "Failed to register probe event"),
        ("p ^vfs_read+0xffffffffffffffff", "Invalid probed address or symbol"),
        ("r ^vfs_read+10", "Retprobe address must be an function entry"),
        ("p vfs_read^%hoge", "Invalid probed address suffix"),
        ("p:^/bar vfs_read", "Group name is not specified"),
        ("p:foo/^bar.1 vfs_read", "Event name must follow the same rules as C identifiers"),
        ("p vfs_read ^$retval", "$retval is not available on probe"),
        ("p vfs_read ^$stack10000", "Invalid stack number"),
        ("p vfs_read ^@12345678abcde", "Invalid memory address"),
        ("p vfs_read +0(+0(@0^)", "Dereference brace is not closed"),
        ("p vfs_read +0(^+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(@0))))))))))))))", "nested"),
        ("p vfs_read +0(@11):u8[^256]", "Array number is too big"),
        ("p vfs_read @11:^b10@a/16", "Invalid bitfield"),
        ('p vfs_read arg1=\\"abcd^', "String is not closed with '\"'"),
        ("p ^vfs_read+3", "Probe point is not an instruction boundary"),
        ("e:foo/bar syscalls/sys_enter_open arg=^dfd", "Invalid fetch argument"),
        ("e:foo/bar syscalls/sys_enter_open ^arg=$foo", "Attached event does not have this field"),
        ("e ^a.b", "Attached event does not exist"),
    ],
)
def test_an_error_is_explained_at_its_place(session: Session, line: str, column: str) -> None:
    tracefs = session.boot.tracefs
    with pytest.raises(Exception, match=r"."):
        tracefs.write("dynamic_events", line.replace("^", ""), append=True)
    first, command, caret = tracefs.read("error_log").splitlines()
    assert column in first
    assert command == f"  Command: {line.replace('^', '')}"
    assert caret.index("^") == len("  Command: ") + line.index("^")


def test_all_kinds_of_arguments(session: Session, sh: Sh, text_in_guest: int) -> None:
    sh(
        "echo 'p:k simple_strtol $arg1 s=+0($arg1):string n=$arg3:s8 first=+0($arg1):u8[3] "
        'low=$arg3:b4@4/16 imm=\\-2:s64 text=\\"hi" bad=+0(+0($arg3)):string at=$stack0:symbol '
        "sp=$stack who=$comm there=@simple_strtol:x8' > kprobe_events"
    )
    sh("echo 1 > events/kprobes/k/enable")
    session.call("simple_strtol", [text_in_guest, 0, 0xA7])
    (row,) = whats(sh("cat trace"))
    assert re.sub(r"(at|sp)=\S+ ?", "", row) == (
        f"k: (simple_strtol+0x0/{_size(session, 'simple_strtol'):#x}) arg1={text_in_guest:#x} "
        's="-1234" n=-89 first={45,49,50} low=10 imm=-2 text="hi" bad=(fault) who="call" '
        f"there={session.boot.machine.memory.read(_address(session, 'simple_strtol'), 1)[0]:#x}"
    )


def _address(session: Session, name: str) -> int:
    address = session.boot.kallsyms.address(name)
    assert address is not None
    return address


def _size(session: Session, name: str) -> int:
    symbol = session.boot.kallsyms.lookup(_address(session, name))
    assert symbol is not None
    return symbol.size


def test_the_event_in_the_buffer_is_as_its_format_says(
    session: Session, sh: Sh, text_in_guest: int
) -> None:
    sh("echo 'p:k simple_strtol a=$arg3:u8 b=$arg1 s=+0($arg1):string' > kprobe_events")
    text = sh("cat events/kprobes/k/format")
    assert text.endswith(
        'print fmt: "(%lx) a=%u b=0x%Lx s=\\"%s\\"", '
        "REC->__probe_ip, REC->a, REC->b, __get_str(s)\n"
    )
    found = re.findall(r"(\w+)(?:\[\])?;\toffset:(\d+);\tsize:(\d+);", text)
    fields = {name: (int(offset), int(size)) for name, offset, size in found}
    sh("echo 1 > events/kprobes/k/enable")
    session.call("simple_strtol", [text_in_guest, 0, 7])
    ring = session.boot.ring
    cpu = next(cpu for cpu in ring.cpus if ring.in_buffer(cpu))
    data = ring.pages(cpu)[0].tobytes()[16 + 4 :]
    if int.from_bytes(data[:2], "little") != int(sh("cat events/kprobes/k/id")):
        data = data[4:]  # a long event has its length in a word of its own

    def value(name: str) -> int:
        offset, size = fields[name]
        return int.from_bytes(data[offset : offset + size], "little")

    assert value("__probe_ip") == _address(session, "simple_strtol")
    assert (value("a"), value("b")) == (7, text_in_guest)
    assert data[value("s") & 0xFFFF :][: value("s") >> 16] == b"-1234\0"


def test_filters_and_triggers_know_the_arguments(
    session: Session, sh: Sh, text_in_guest: int
) -> None:
    sh("echo 'p:k simple_strtol base=$arg3 s=+0($arg1):string' > kprobe_events")
    sh("echo 'base > 5 && s ~ \"-12*\"' > events/kprobes/k/filter")
    sh("echo 'hist:keys=base' > events/kprobes/k/trigger; echo 1 > events/kprobes/k/enable")
    for base in (4, 6, 8):
        session.call("simple_strtol", [text_in_guest, 0, base])
    assert [row.split()[-2] for row in whats(sh("cat trace"))] == ["base=0x6", "base=0x8"]
    assert sh("cat events/kprobes/k/hist").count("} hitcount:") == 3


@pytest.mark.parametrize("name", PROBED)
def test_a_breakpoint_at_each_instruction_changes_no_result(name: str) -> None:
    """The kernel runs as before with all instructions of some functions probed."""
    session = Session.open(arches.load(name))
    sh = executor(session)
    plain = sh("run syscalls")
    functions = ("ksys_read", "vfs_read", "vfs_open", "wake_up_process", "getname", "fget")
    count = 0
    for function in functions:
        for offset in range(_size(session, session.boot.port.facts.abi.text_prefix + function)):
            line = f"echo 'p:k{count} {function}+{offset}' >> kprobe_events"
            count += not refused(session, line)
    assert count > 50
    before = session.boot.machine.memory.read(_address(session, "vfs_read"), 64)
    sh("echo 1 > events/kprobes/enable")
    assert session.boot.machine.memory.read(_address(session, "vfs_read"), 64) != before
    assert sh("run syscalls") == plain
    hits = [int(line.split()[1]) for line in sh("cat kprobe_profile").splitlines()]
    assert sum(hits) > 500
    sh("echo 0 > events/kprobes/enable; echo > kprobe_events")
    assert session.boot.machine.memory.read(_address(session, "vfs_read"), 64) == before
    sh("run syscalls")
    assert not session.boot.machine.oopses


@pytest.mark.parametrize("name", RETURNS)
def test_a_return_probe_sees_the_result(name: str) -> None:
    session = Session.open(arches.load(name))
    sh = executor(session)
    sh("echo 'r:back simple_strtol $retval:s32 sp=$stack' > kprobe_events")
    address = put(session, b"77\0")
    sh("echo 1 > events/kprobes/enable; echo function_graph > current_tracer")
    sh("echo simple_strtol > set_graph_function")
    assert session.call("simple_strtol", [address, 0, 10]) == 77
    sh("echo nop > current_tracer; echo > trace")
    assert session.call("simple_strtol", [address, 0, 10]) == 77
    (row,) = whats(sh("cat trace"))
    assert re.match(r"back: \(\S+ <- simple_strtol\) arg1=77 sp=0x", row)
    assert not session.boot.machine.oopses


def test_calls_above_maxactive_are_missed(session: Session, sh: Sh) -> None:
    sh("echo 'r1:deep schedule $retval' > kprobe_events; echo 1 > events/kprobes/enable")
    sh("run syscalls")
    (row,) = sh("cat kprobe_profile").splitlines()
    assert int(row.split()[2]) > 0  # some other task always sleeps in schedule()


def test_one_event_may_have_several_probes(session: Session, sh: Sh) -> None:
    sh("echo 'p:k/both vfs_read $arg3' > kprobe_events")
    sh("echo 'p:k/both vfs_write $arg3' >> kprobe_events")
    assert "Argument type or name is different" in refused(
        session, "echo 'p:k/both vfs_open $arg3:u8' >> kprobe_events"
    )
    assert "exact same probe" in refused(session, "echo 'p:k/both vfs_read $arg3' >> kprobe_events")
    sh("echo 1 > events/k/both/enable; run syscalls")
    names = {row.split("(")[1].split("+")[0] for row in whats(sh("cat trace"))}
    assert names == {"vfs_read", "vfs_write"}
    sh("echo '-:k/both vfs_read' >> kprobe_events; echo > trace; run syscalls")
    names = {row.split("(")[1].split("+")[0] for row in whats(sh("cat trace"))}
    assert names == {"vfs_write"}


def test_a_probe_waits_for_its_module(session: Session, sh: Sh) -> None:
    sh("echo 'p:u usbcore:usb_ifnum_to_if %si:u8' > kprobe_events")
    sh("echo 1 > events/kprobes/u/enable; insmod usbcore; run usb")
    assert any("u: (usb_ifnum_to_if+0x0/" in row for row in whats(sh("cat trace")))
    sh("rmmod usbcore; cat kprobe_events")
    assert sh("cat /sys/kernel/debug/kprobes/list") == ""
    sh("echo > trace; insmod usbcore; run usb")
    assert any("u: (usb_ifnum_to_if+0x0/" in row for row in whats(sh("cat trace")))
    assert not session.boot.machine.oopses


def test_an_event_probe_follows_an_event(session: Session, sh: Sh) -> None:
    sh("echo 'e:opened syscalls.sys_enter_open f=+0($filename):ustring' > dynamic_events")
    sh("echo 'e:few syscalls/sys_enter_open $flags:s32 if flags == 0' >> dynamic_events")
    sh("echo 1 > events/eprobes/enable; run syscalls")
    rows = whats(sh("cat trace"))
    opened = "opened: (syscalls.sys_enter_open) f="
    assert f'{opened}"/proc/uptime"' in rows
    few = [row for row in rows if row.startswith("few:")]
    assert few and all(row.endswith("arg1=0") for row in few)
    assert sh("cat events/syscalls/sys_enter_open/enable") == "0*\n"
    sh("echo 0 > events/eprobes/enable; echo '-:opened syscalls/sys_enter_open' >> dynamic_events")
    assert sh("cat events/syscalls/sys_enter_open/enable") == "0\n"


def test_a_reboot_removes_all_probes(session: Session, sh: Sh) -> None:
    before = session.boot.machine.memory.read(_address(session, "vfs_read"), 32)
    sh("echo 'p:a vfs_read+5' > kprobe_events; echo 1 > events/kprobes/a/enable")
    assert "int3" in sh("site vfs_read")
    sh("reboot")
    assert sh("cat kprobe_events") == ""
    assert session.boot.machine.memory.read(_address(session, "vfs_read"), 32) == before


def test_the_list_and_its_switch(session: Session, sh: Sh) -> None:
    sh("echo 'p:a vfs_read' > kprobe_events; echo 'p:b vfs_read+5' >> kprobe_events")
    folder = "/sys/kernel/debug/kprobes"
    assert sh(f"cat {folder}/list").count("[DISABLED]") == 2
    sh("echo 1 > events/kprobes/enable")
    first, second = sh(f"cat {folder}/list").splitlines()
    assert first.endswith("k  vfs_read+0x0    [FTRACE]") and second.endswith("k  vfs_read+0x5    ")
    sh(f"echo 0 > {folder}/enabled")
    assert "int3" not in sh("site vfs_read") and "0 users" in sh("site vfs_read")
    sh(f"echo 1 > {folder}/enabled")
    assert "int3" in sh("site vfs_read")


@pytest.mark.parametrize("name", ["ppc64", "ppc32", "mips", "mipsel", "mips64"])
def test_other_ports_have_kprobes_at_call_sites(name: str) -> None:
    session = Session.open(arches.load(name))
    sh = executor(session)
    sh("echo 'p:k vfs_read c=$comm i=\\5:u16' > kprobe_events; echo 1 > events/kprobes/enable")
    sh("run syscalls")
    rows = whats(sh("cat trace"))
    assert rows and all(re.match(r'k: \(\.?vfs_read\+0x\w+/0x\w+\) c="\w.*" i=5$', r) for r in rows)
    error = refused(session, "echo 'p vfs_read+4' >> kprobe_events")
    assert "call sites only" in error and "Operation not supported" in error
