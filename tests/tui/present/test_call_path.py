"""The lines of the Trampoline pane, from handmade hops."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dynftrace.core.views.disasm import Insn
from dynftrace.core.views.path import CALLER, SITE, SLOT, TRACER, Hop
from dynftrace.tui.present.call_path import PathText, path_lines
from dynftrace.tui.present.line import plain


def hop(label: str, address: int, name: str, target: int | None, verified: bool = True) -> Hop:
    """Return a hop with one instruction."""
    insn = Insn(address, b"\xe8\x01\x02\x03\x04", "call", "x", target)
    note = "calls it" if verified else "is not what ftrace put there"
    return Hop(label, address, name, ((insn, "call x"),), target, verified, note)


def hops(*, nop: bool = False, wrong: bool = False) -> tuple[Hop, ...]:
    """Return a path of four hops."""
    return (
        hop(SITE, 0x1000, "schedule", None if nop else 0x2000),
        hop(CALLER, 0x2000, "ftrace_caller", 0x2040, not wrong),
        hop(SLOT, 0x2040, "ftrace_call", 0x3000),
        hop(TRACER, 0x3000, "function_trace_call", None),
    )


def text(*path: Hop) -> list[str]:
    return [plain(each).rstrip() for each in path_lines(path)]


def test_a_path_that_is_taken() -> None:
    lines = text(*hops())
    assert lines[0] == "site schedule ─▶ ftrace_caller ─▶ ftrace_call ─▶ function_trace_call"
    assert lines[2] == "✓ site schedule        1000  calls it"
    assert lines[5] == "✓ function_trace_call  3000  calls it"
    assert "  1000  e8 01 02 03 04  call x" in lines


def test_a_long_path_is_wrapped() -> None:
    stub = hop("stub", 0x1800, "ftrace_caller.stub", 0x2000)
    site, *rest = hops()
    lines = text(replace(site, name=".usb_ifnum_to_if+0x1c"), stub, *rest)
    assert lines[:3] == [
        "site .usb_ifnum_to_if+0x1c ─▶ ftrace_caller.stub ─▶ ftrace_caller",
        "  ─▶ ftrace_call ─▶ function_trace_call",
        "",
    ]


def test_the_path_leaves_room_for_a_scrollbar_on_80_and_on_200_columns() -> None:
    assert text(*hops(nop=True))[0] == (
        "site schedule (nop)    ftrace_caller    ftrace_call    function_trace_call"
    )
    assert text(replace(hops(nop=True)[0], name="setup_arch"), *hops()[1:])[:2] == [
        "site setup_arch (nop)    ftrace_caller    ftrace_call",
        "     function_trace_call",
    ]
    stub = hop("stub", 0x1800, "ftrace_regs_trampoline", 0x2000)
    site, caller, *rest = hops()
    caller = replace(caller, name="ftrace_regs_caller")
    assert text(replace(site, name="usb_string"), stub, caller, *rest)[:2] == [
        "site usb_string ─▶ ftrace_regs_trampoline ─▶ ftrace_regs_caller",
        "  ─▶ ftrace_call ─▶ function_trace_call",
    ]


@pytest.mark.parametrize("width", [48, 61, 76])
def test_nothing_of_the_path_is_cut_in_a_narrow_pane(width: int) -> None:
    far = [replace(each, address=each.address | 0xFFFF_FFFF_8000_0000) for each in hops()]
    note = "is not what ftrace left there, and leads to the stub of another function"
    far[1] = replace(far[1], verified=False, note=note)
    lines = [plain(each) for each in PathText(tuple(far)).fitted(width, 5)]
    upper = lines[: lines.index("")]
    assert max(map(len, upper)) <= width
    said = " ".join(" ".join(upper).split())
    assert note in said and said.count("calls it") == 3
    assert all(each.name in said for each in far)


def test_a_nop_leads_nowhere() -> None:
    assert text(*hops(nop=True))[0] == (
        "site schedule (nop)    ftrace_caller    ftrace_call    function_trace_call"
    )


def test_a_wrong_hop_has_a_sign_and_a_reason() -> None:
    lines = text(*hops(wrong=True))
    assert lines[3] == "! ftrace_caller        2000  is not what ftrace put there"


def test_a_damaged_hop_is_followed_only_if_it_still_leads_there() -> None:
    site, caller, *rest = hops()
    assert text(replace(site, verified=False), caller, *rest)[0] == (
        "! site schedule ─▶ ftrace_caller ─▶ ftrace_call ─▶ function_trace_call"
    )
    for target in (0x1000, None):
        damaged = replace(site, verified=False, target=target)
        assert text(damaged, caller, *rest)[0] == (
            "! site schedule    ftrace_caller    ftrace_call    function_trace_call"
        )


def test_wrong_words_are_marked() -> None:
    path = hop(CALLER, 0x2000, "ftrace_caller", 0x2040, verified=False)
    lines = path_lines([replace(path, expected=b"\xe8\x01\x02\x03\x05")])
    assert plain(lines[-1]).rstrip() == "! 2000  e8 01 02 03 04  call x"
    assert ("e8 01 02 03 04", "mark") in lines[-1], (
        "the spaces after wrong words must not be marked"
    )


def test_data_is_shown_as_data() -> None:
    insn = Insn(0xC000_1010, bytes(4), ".long", "0x0", None, False)
    stub = hop("stub", 0xC000_1000, "ftrace_caller.stub", 0x2000)
    lines = text(replace(stub, insns=((insn, ".long 0x0"),)))
    assert lines[-1] == "  c0001010  00 00 00 00  .long 0x0"


def test_no_hops() -> None:
    assert text() == ["", ""]
