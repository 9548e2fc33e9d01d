"""The three forms of a call site, the code around it, and damage."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynftrace.core.errors import UsageError
from dynftrace.core.ftrace.records import Records
from dynftrace.core.shell.text.call_site import site_lines
from dynftrace.core.views.call_site import CallSite, Code, SiteReader, find_sites
from dynftrace.core.views.disasm import Disassembler
from dynftrace.core.views.filetext import FileText, Pending

from ...support.user import opened
from .siteworld import FENTRY, LATE, NOP5, PROBE, PROLOGUE, SCHEDULE, STUB, World, call


def view(world: World, row: int, stored: FileText | None = None) -> CallSite:
    world.in_file = stored
    reader = SiteReader(world.ftrace, world.memory, world.disasm, world)
    return reader.at(world.ftrace.records.ip_of(row))


class WithoutFiles:
    """Images without files."""

    def text(self, address: int, size: int) -> bytes | None:
        return None

    def stored(self, address: int, size: int) -> FileText | None:
        return None

    def source_line(self, address: int) -> tuple[str, int] | None:
        return None


@pytest.mark.parametrize("arch", ["x86_64", "ppc64", "mips"])
def test_text_that_nobody_changed_has_the_same_rows_as_any_other(
    arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot = opened(arch).boot
    ips = [boot.ftrace.records.ip_of(row) for row in range(0, len(boot.ftrace.records), 20)]
    fast = [boot.sites.at(ip, before=4, after=12) for ip in ips]
    monkeypatch.setattr(Disassembler, "size", lambda *_: 0)
    assert fast == [boot.sites.at(ip, before=4, after=12) for ip in ips]
    assert all(len(site.rows) > 5 for site in fast)


def test_a_disabled_site_is_a_nop() -> None:
    world = World()
    site = view(world, 0)
    assert (site.name, site.ip, site.state, site.users) == ("schedule", SCHEDULE, "nop", 0)
    assert site.symbol == "schedule+0x0/0x100"
    assert site.source == ("kernel/sched.c", 41)
    first = site.rows[0]
    assert first.is_site and first.changed and not first.wrong
    assert first.compiled.data == call(SCHEDULE, FENTRY)
    assert first.compiled.asm == "call __fentry__"
    assert first.expected.data == first.now.data == NOP5
    assert [row.now.asm for row in site.rows[1:]] == ["push rbp", "mov rbp, rsp", "xor eax, eax"]
    assert not any(row.is_site or row.changed for row in site.rows[1:])


def test_an_enabled_site_is_a_call() -> None:
    world = World()
    world.enable(0, "function_trace_call")
    site = view(world, 0)
    caller = world.ftrace.entry["ftrace_caller"]
    assert (site.state, site.users, site.ops) == ("enabled", 1, ("function_trace_call",))
    assert site.rows[0].now.data == call(SCHEDULE, caller) == site.rows[0].expected.data
    assert site.rows[0].now.asm == "call ftrace_caller"


def test_instructions_before_a_site_are_shown() -> None:
    world = World()
    site = view(world, 1)
    assert [row.address for row in site.rows] == [
        LATE,
        LATE + 1,
        LATE + 4,
        LATE + 9,
        LATE + 11,
        LATE + 12,
    ]
    assert [row.is_site for row in site.rows] == [False, False, True, False, False, False]


def test_an_overwritten_site_is_shown_as_damaged() -> None:
    world = World()
    world.memory.write(SCHEDULE, b"\xeb\xfe")
    site = view(world, 0)
    wrong = [row for row in site.rows if row.wrong]
    assert wrong and all(row.is_site for row in wrong)
    assert wrong[0].now.data[:2] == b"\xeb\xfe"
    assert b"".join(row.now.data for row in site.rows if row.is_site) == b"\xeb\xfe" + NOP5[2:]


def test_an_instruction_across_the_end_of_the_site_is_one_row() -> None:
    world = World()
    world.memory.write(SCHEDULE, bytes.fromhex("48b8") + b"\x90" * 8)
    site = view(world, 0)
    assert site.rows[0].is_site
    assert site.rows[0].now.asm.startswith("movabs rax, 0x9090909090909090; ")
    assert site.rows[0].compiled.asm == "call __fentry__; push rbp; mov rbp, rsp; xor eax, eax"
    assert site.rows[1].now.asm == "ret"


def test_changes_around_a_site_are_marked_without_expected_bytes() -> None:
    world = World()
    world.memory.write(SCHEDULE + 5, b"\x90")
    site = view(world, 0)
    row = site.rows[1]
    assert row.changed and not row.wrong and not row.is_site
    assert (row.compiled.asm, row.now.asm) == ("push rbp", "nop")
    lines = site_lines(site)
    at = next(number for number, line in enumerate(lines) if "push rbp" in line)
    assert [line[18:].split()[:2] for line in lines[at : at + 2]] == [
        ["compiled", "55"],
        ["*", "now"],
    ]
    assert lines[-1] == "* changed since it was compiled"


def test_an_unmapped_site_says_so() -> None:
    world = World()
    world.memory.unmap("text")
    site = view(world, 0)
    assert not site.readable
    assert all(row.now.data == b"" for row in site.rows)
    assert "its memory is not mapped" in site_lines(site)


def test_without_a_file_the_compiled_text_is_missing() -> None:
    world = World()
    site = SiteReader(world.ftrace, world.memory, world.disasm, WithoutFiles()).at(SCHEDULE)
    assert site.source is None
    assert site.rows[0].compiled.data == call(SCHEDULE, FENTRY)
    assert site.rows[1].compiled.asm == "push rbp"


def test_an_address_without_a_site_is_refused() -> None:
    world = World()
    with pytest.raises(UsageError, match="no call site at 0x1000"):
        SiteReader(world.ftrace, world.memory, world.disasm, world).at(0x1000)


def test_sites_are_found_by_name_and_address() -> None:
    records = World().ftrace.records
    assert find_sites(records, "late") == [World().late]
    assert find_sites(records, f"0x{SCHEDULE:x}") == [SCHEDULE]
    assert find_sites(records, "late [usbcore]") == []
    for text in ("", "nothing", "0x", "0xzz", "0x1" + "0" * 40, f"0x{SCHEDULE + 1:x}"):
        assert find_sites(records, text) == [], text


def test_a_name_may_omit_the_code_prefix() -> None:
    records = Records(5)
    names = [".schedule", "schedule", ".late"]
    ips = np.array([0x100, 0x200, 0x300], np.uint64)
    records.add(ips, names, np.zeros((3, 5), np.uint8))
    assert find_sites(records, ".schedule", ".") == [0x100]
    assert find_sites(records, "schedule", ".") == [0x100, 0x200]
    assert find_sites(records, "late", ".") == [0x300]
    assert find_sites(records, "late") == []
    assert find_sites(records, "", ".") == []


def test_a_site_of_a_module_names_its_stub() -> None:
    world = World()
    stub = world.load_module()[1]
    world.enable(2, "function_trace_call")
    site = view(world, 2)
    assert (site.module, site.via) == ("usbcore", ("ftrace_caller.stub", stub.address))
    assert site.rows[0].compiled.asm == "call __fentry__.stub"
    assert site.rows[0].now.asm == "call ftrace_caller.stub"
    assert site_lines(site)[2] == f"calls ftrace_caller through ftrace_caller.stub at {STUB + 16:x}"
    assert view(world, 0).via is None


def test_a_disabled_site_names_the_stub_its_call_would_use() -> None:
    world = World()
    world.load_module()
    through = f"calls ftrace_caller through ftrace_caller.stub at {STUB + 16:x}"
    assert site_lines(view(world, 2))[2] == f"when enabled, {through}"


def test_a_site_of_a_module_is_shown_before_relocation() -> None:
    world = World()
    world.load_module()
    empty = b"\xe8" + bytes(4)
    wait = (Pending(PROBE + 1, "R_X86_64_PLT32", "__fentry__"),)
    site = view(world, 2, FileText(PROBE, empty + b"\xcc" + PROLOGUE[1:], wait))
    assert site.relocated and site.relocations == ("R_X86_64_PLT32 __fentry__",)
    first, *rest = site.rows
    assert first.in_file is not None
    assert (first.in_file.data, first.in_file.asm) == (empty, "call __fentry__")
    assert all(row.in_file is None for row in rest)  # the text around it is as loaded
    lines = site_lines(site)
    labels = [line[18:].split()[0:2] for line in lines[3:7]]
    assert labels == [["in", "file"], ["loaded", "e8"], ["expected", "0f"], ["*", "now"]]
    assert lines[-2:] == [
        "in file: not relocated (R_X86_64_PLT32 __fentry__)",
        "* changed since it was loaded",
    ]


def test_a_word_changed_only_by_insmod_shows_all_its_forms() -> None:
    world = World()
    world.load_module()
    world.memory.write(PROBE, world.ftrace.records.compiled[2].tobytes())
    world.enable(2, "function_trace_call")
    world.ftrace.records.compiled[2] = np.frombuffer(world.memory.read(PROBE, 5), np.uint8)
    site = view(world, 2, FileText(PROBE, NOP5 + PROLOGUE))
    row = site.rows[0]
    assert not row.changed and not row.wrong and row.in_file is not None
    lines = site_lines(site)
    assert [line[18:].split()[:1] for line in lines[3:7]] == [
        ["in"],
        ["loaded"],
        ["expected"],
        ["now"],
    ]
    assert lines[3].endswith(" nop dword ptr [rax + rax]")
    assert lines[-1] == "in file: not relocated (by insmod)"


def test_a_branch_without_a_relocation_shows_its_distance() -> None:
    world = World()
    world.load_module()
    for data, text in ((bytes(4), "call .+0x5"), (b"\xfb\xff\xff\xff", "call .+0x0")):
        site = view(world, 2, FileText(PROBE, b"\xe8" + data + PROLOGUE))
        assert site.rows[0].in_file is not None and site.rows[0].in_file.asm == text
    same = FileText(PROBE, call(PROBE, STUB) + PROLOGUE)
    assert not view(world, 2, same).relocated


def test_a_site_is_shown_as_text() -> None:
    world = World()
    world.enable(0, "function_trace_call")
    jump = " ".join(f"{byte:02x}" for byte in call(SCHEDULE, world.ftrace.entry["ftrace_caller"]))
    left = " ".join(f"{byte:02x}" for byte in call(SCHEDULE, FENTRY))
    assert site_lines(view(world, 0)) == [
        "schedule  ip ffffffff81000100  enabled  1 user (function_trace_call)",
        "kernel/sched.c:41",
        f"  ffffffff81000100    compiled  {left}  call __fentry__",
        f"                      expected  {jump}  call ftrace_caller",
        f"                    * now       {jump}  call ftrace_caller",
        "  ffffffff81000105              55              push rbp",
        "  ffffffff81000106              48 89 e5        mov rbp, rsp",
        "  ffffffff81000109              31 c0           xor eax, eax",
        "* changed since it was compiled",
    ]
    world.memory.write(SCHEDULE, b"\x90")
    lines = site_lines(view(world, 0))
    found = world.memory.read(SCHEDULE, 5).hex()
    assert lines[-1] == f"! not what ftrace expects: no call: {found}"
    assert any(line.startswith(" " * 20 + "! now ") for line in lines)


def test_an_instruction_that_does_not_fit_is_below_its_bytes() -> None:
    site = view(World(), 0)
    first, *others = site.rows
    wide = Code(bytes(range(12)), "mov qword ptr [0xffffffffff501018], 0xffffffff81013100")
    long = replace(others[-1], compiled=wide, expected=wide, now=wide)
    lines = site_lines(replace(site, rows=(first, *others[:-1], long)))
    at = next(number for number, line in enumerate(lines) if line.endswith("09 0a 0b"))
    assert lines[at + 1].lstrip() == wide.asm
    assert max(map(len, lines)) <= 80
