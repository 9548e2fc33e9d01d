"""The lines of the Call site pane, from handmade call sites."""

from __future__ import annotations

from dataclasses import replace

from dynftrace.core.views.call_site import CallSite, Code, SiteRow
from dynftrace.tui.present.call_site import rows_in_sight, site_lines
from dynftrace.tui.present.line import plain

IP = 0xFFFF_FFFF_8100_0040
COMPILED = Code(bytes.fromhex("e8cb5d0000"), "call __fentry__")
NOP = Code(bytes.fromhex("0f1f440000"), "nop dword ptr [rax + rax]")
CALL = Code(bytes.fromhex("e85b002000"), "call ftrace_caller")
TRAP = Code(bytes.fromhex("cc1f440000"), "int3; pop ds; add byte ptr [rax], al")
PUSH = Code(b"\x55", "push rbp")


def view(state: str, expected: Code, now: Code) -> CallSite:
    """Return a site of five bytes with one instruction after it."""
    users = 1 if state == "enabled" else 0
    return CallSite(
        name="schedule",
        module=None,
        ip=IP,
        symbol="schedule+0x0/0x80",
        state=state,
        users=users,
        ops=("global_ops",) * users,
        via=None,
        source=("sched/core.c", 41),
        readable=True,
        reason="",
        rows=(
            SiteRow(IP, COMPILED, expected, now, True, switches=True),
            SiteRow(IP + 5, PUSH, PUSH, PUSH, False),
        ),
    )


def text(site: CallSite, width: int = 76, height: int | None = None) -> list[str]:
    return [plain(each).rstrip() for each in site_lines(site, width, height)]


def test_an_enabled_site() -> None:
    lines = text(view("enabled", CALL, CALL))
    assert lines[0] == "schedule   ENABLED   1 user: global_ops"
    assert lines[1] == "ip ffffffff81000040   sched/core.c:41   schedule+0x0/0x80"
    assert lines[3] == "▶ ffffffff81000040  as compiled e8 cb 5d 00 00     call __fentry__"
    assert lines[4] == "                    expected    e8 5b*00*20*00     call ftrace_caller"
    assert lines[5] == "                    now *       e8 5b*00*20*00     call ftrace_caller"
    assert lines[6] == "  ffffffff81000045              55                 push rbp"


def test_changed_text_after_a_site_is_not_shown_as_part_of_it() -> None:
    site = view("nop", NOP, NOP)
    lines = text(replace(site, rows=(site.rows[0], replace(site.rows[1], now=TRAP))))
    assert lines[6] == "  ffffffff81000045  as compiled 55                 push rbp"
    assert lines[7] == f"                    now *       cc*1f*44*00*00*    {TRAP.asm}"
    assert len(lines) == 8


def test_unexpected_text_is_explained_in_words() -> None:
    lines = text(view("failed", NOP, TRAP))
    assert lines[0] == "schedule   REFUSED   0 users"
    assert "0f*1f*44*00 00" in lines[4]
    assert "cc!1f 44 00 00" in lines[5]
    assert "now !" in lines[5]
    assert lines[6].strip() == "! not what ftrace expects: it refuses to patch it"


def test_the_reason_is_given_once_after_the_last_wrong_word() -> None:
    site = view("failed", NOP, TRAP)
    wrong = SiteRow(IP + 5, PUSH, PUSH, Code(b"\x90", "nop"), True)
    lines = text(
        replace(site, rows=(site.rows[0], wrong), reason="Not expected bl: opcode is 60000000")
    )
    assert [each.strip() for each in lines[-2:]] == [
        "! not what ftrace expects: it refuses to patch it",
        "! Not expected bl: opcode is 60000000",
    ]
    assert sum("! not what" in each for each in lines) == 1


def test_a_long_reason_continues_below() -> None:
    reason = "x30 is not saved before the branch: expected aa1e03e9, found 14000000"
    lines = text(replace(view("failed", NOP, TRAP), reason=reason))
    start = next(at for at, each in enumerate(lines) if "x30" in each)
    assert lines[start : start + 2] == [
        " " * 9 + "! x30 is not saved before the branch: expected aa1e03e9, found",
        " " * 9 + "  14000000",
    ]


def test_a_word_of_the_site_that_stays_the_same_is_shown_once() -> None:
    site = view("enabled", CALL, CALL)
    word = Code(bytes.fromhex("e8410028"), "ld r2, 40(r1)")
    lines = text(replace(site, rows=(site.rows[0], SiteRow(IP + 5, word, word, word, True))))
    assert lines[6:] == ["▶ ffffffff81000045  the same    e8 41 00 28        ld r2, 40(r1)"]


def test_if_all_instructions_are_words_their_text_starts_right_after_them() -> None:
    nop, call = Code(bytes.fromhex("60000000"), "nop"), Code(bytes.fromhex("48003015"), "bl stub")
    branch = Code(bytes.fromhex("419e0010"), "beq there")
    rows = (SiteRow(IP, nop, call, call, True), SiteRow(IP + 4, branch, branch, branch, False))
    assert text(replace(view("enabled", CALL, CALL), rows=rows))[3:] == [
        "▶ ffffffff81000040  as compiled 60 00 00 00  nop",
        "                    expected    48*00 30*15* bl stub",
        "                    now *       48*00 30*15* bl stub",
        "  ffffffff81000044              41 9e 00 10  beq there",
    ]


def test_a_call_out_of_reach_names_its_stub() -> None:
    site = replace(view("enabled", CALL, CALL), via=("ftrace_caller.stub", 0xD000_0000_0000_E200))
    lines = text(site)
    assert lines[2] == "through ftrace_caller.stub at d00000000000e200"
    assert lines[3].startswith("▶ ")


def test_a_disabled_site_names_the_stub_of_its_call() -> None:
    site = replace(view("nop", NOP, NOP), via=("ftrace_caller.stub", 0xD000_0000_0000_E200))
    assert text(site)[2] == "when enabled through ftrace_caller.stub at d00000000000e200"


def test_the_relocated_bytes_are_below_those_of_the_file() -> None:
    site = view("enabled", CALL, CALL)
    empty = Code(bytes.fromhex("e800000000"), "call __fentry__")
    nop, load = (
        Code(bytes.fromhex("60000000"), "nop"),
        Code(bytes.fromhex("e8410028"), "ld r2, 40(r1)"),
    )
    rows = (
        replace(site.rows[0], in_file=empty),
        SiteRow(IP + 5, load, load, load, True, nop),
        site.rows[1],
    )
    lines = text(replace(site, rows=rows, relocations=("R_X86_64_PLT32 __fentry__",)))
    assert lines[3:] == [
        "▶ ffffffff81000040  in the file e8 00 00 00 00     call __fentry__",
        "                    as loaded   e8 cb 5d 00 00     call __fentry__",
        "                    expected    e8 5b*00*20*00     call ftrace_caller",
        "                    now *       e8 5b*00*20*00     call ftrace_caller",
        "▶ ffffffff81000045  in the file 60 00 00 00        nop",
        "                    loaded, now e8 41 00 28        ld r2, 40(r1)",
        "  ffffffff81000045              55                 push rbp",
        "  in the file: not relocated (R_X86_64_PLT32 __fentry__)",
    ]
    before = tuple(SiteRow(IP - at, PUSH, PUSH, PUSH, False) for at in (2, 1))
    assert [each[:18] for each in text(replace(site, rows=before + rows))[3:5]] == [
        f"  {IP - 1:x}",
        f"▶ {IP:x}",
    ]
    assert text(replace(site, rows=before + site.rows))[3].startswith(f"  {IP - 2:x}")
    wrong = replace(site.rows[0], in_file=empty, now=TRAP)
    assert [each[9:20].strip() for each in text(replace(site, rows=(wrong,)))[3:7]] == [
        "in the file",
        "as loaded",
        "expected",
        "now !",
    ]


def test_changed_bytes_are_reversed_too() -> None:
    spans = site_lines(view("enabled", CALL, CALL))[5]
    assert [text for text, tone in spans if tone == "mark"] == ["5b", "00", "20"]


def test_all_rows_fit_the_pane_at_eighty_columns() -> None:
    for state, expected, now in (("enabled", CALL, CALL), ("nop", NOP, NOP)):
        assert max(len(each) for each in text(view(state, expected, now))) <= 78


def test_memory_that_is_not_mapped() -> None:
    site = view("nop", NOP, Code(b"", ""))
    object.__setattr__(site, "readable", False)
    assert "! the memory of this site is not mapped" in text(site)


def test_the_row_to_see_first_is_the_last_form_of_the_sites_first_instruction() -> None:
    site = view("enabled", CALL, CALL)
    lines = site_lines(site)
    assert plain(lines[rows_in_sight(site, lines)[0]]).strip().startswith("now *")
    assert rows_in_sight(replace(site, rows=()), ()) == (0, 0)


def test_what_the_tracer_changes_has_a_line_for_each_form_in_every_state() -> None:
    """Lines would move on `t` if equal forms shared one."""
    for state, form in (("enabled", CALL), ("nop", NOP), ("nop", COMPILED)):
        shown = [each[20:].split()[0] for each in text(view(state, form, form))[3:6]]
        assert shown == ["as", "expected", "now"]


def test_a_narrow_pane_shortens_addresses_and_keeps_instructions_whole() -> None:
    lines = text(view("nop", NOP, NOP), width=62)
    assert lines[3:6] == [
        "▶ …0040  as compiled e8 cb 5d 00 00  call __fentry__",
        "         expected    0f*1f*44*00 00  nop dword ptr [rax + rax]",
        "         now *       0f*1f*44*00 00  nop dword ptr [rax + rax]",
    ]


def test_a_low_pane_keeps_what_the_tracer_changes() -> None:
    """As on arm64: the first word of two is always the same, the second one changes."""
    move, nop = Code(b"\xe9\x03\x1e\xaa", "mov x9, x30"), Code(b"\x1f\x20\x03\xd5", "nop")
    branch = Code(b"\x40\xf4\x3f\x94", "bl ftrace_caller")
    rows = (
        SiteRow(IP, nop, move, move, True),
        SiteRow(IP + 4, nop, branch, branch, True, switches=True),
        SiteRow(IP + 8, PUSH, PUSH, PUSH, False),
    )
    site = replace(view("enabled", CALL, CALL), rows=rows)
    assert [each[20:] for each in text(site, height=20)[3:9]] == [
        "as compiled 1f 20 03 d5  nop",
        "expected    e9*03*1e*aa* mov x9, x30",
        "now *       e9*03*1e*aa* mov x9, x30",
        "as compiled 1f 20 03 d5  nop",
        "expected    40*f4*3f*94* bl ftrace_caller",
        "now *       40*f4*3f*94* bl ftrace_caller",
    ]
    assert [each[20:] for each in text(site, height=6)[2:6]] == [
        "now *       e9*03*1e*aa* mov x9, x30",
        "as compiled 1f 20 03 d5  nop",
        "expected    40*f4*3f*94* bl ftrace_caller",
        "now *       40*f4*3f*94* bl ftrace_caller",
    ]
