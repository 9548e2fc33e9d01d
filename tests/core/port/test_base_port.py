"""A port that inherits all verbs it does not need to define."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynftrace import arches
from dynftrace.core.arch import Calls, Sites
from dynftrace.core.port.base_port import BasePort

ARM64 = arches.load("arm64").facts


def test_a_call_fills_the_argument_registers_of_the_facts() -> None:
    effect = BasePort(ARM64).enter_call(0x1000, (7, -1), 0x8008, 0x2000)
    assert effect.registers == {"pc": 0x1000, "sp": 0x8000, "x30": 0x2000, "x0": 7, "x1": 2**64 - 1}
    assert effect.stores == ()
    with pytest.raises(ValueError, match="at most 8 arguments"):
        BasePort(ARM64).enter_call(0x1000, range(9), 0x8000, 0x2000)


def test_a_port_that_stores_return_addresses_must_define_calls() -> None:
    with pytest.raises(NotImplementedError):
        BasePort(arches.load("x86_64").facts).enter_call(0x1000, (), 0x8000, 0x2000)


def test_only_the_nops_of_the_facts_are_accepted() -> None:
    port = BasePort(replace(ARM64, nops=("nop", "b")))
    assert port.with_nop("b") is port
    with pytest.raises(ValueError, match=r"unknown nop 'x' \(choose from: nop, b\)"):
        port.with_nop("x")


def test_missing_parts_are_none_or_not_implemented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = BasePort(ARM64)
    monkeypatch.setattr(BasePort, "folder", tmp_path, raising=False)
    assert (port.stubs, port.trampolines, port.dyn_arch_init(0, 0)) == (None, None, None)
    for verb in (port.entry_source, lambda: port.relocation_name(1)):
        with pytest.raises(NotImplementedError):
            verb()


def test_three_verbs_follow_from_the_text_of_calls() -> None:
    sites = Sites(np.array([0x1000, 0x2000], np.uint64))
    texts = [np.full((2, 1), value, np.uint8) for value in (1, 2, 0x90)]
    reach = np.array([True, False])
    stub = np.array([0x3000, 0], np.uint64)
    old = Calls(texts[0], texts[2], np.ones(2, np.bool_), stub)
    new = Calls(texts[1], texts[2], reach)
    assert old.make_nop(sites).row(old.make_nop(sites).expected, 0) == b"\x01"
    assert old.make_call(sites).expected.tolist() == [[0x90], [0x90]]
    edit = old.modify_call(sites, new)
    assert (edit.expected.tolist(), edit.replacement.tolist()) == ([[1], [1]], [[2], [2]])
    assert edit.reachable.tolist() == [True, False]
    assert [via.tolist() for via in edit.via] == [[0x3000, 0]]


class Caller(BasePort):
    """A port of which only the text of calls is known: the last byte of the target."""

    def calls(self, sites: Sites, target: int) -> Calls:
        width = (len(sites), 1)
        texts = (np.full(width, value, np.uint8) for value in (target & 0xFF, 0x90))
        return Calls(*texts, np.ones(len(sites), np.bool_))


def test_a_port_that_encodes_calls_has_the_verbs_that_change_them() -> None:
    port, sites = Caller(ARM64), Sites(np.array([0x1000], np.uint64))
    for edit, expected, replacement in (
        (port.make_nop(sites, 1), 1, 0x90),
        (port.make_call(sites, 1), 0x90, 1),
        (port.modify_call(sites, 1, 2), 1, 2),
        (port.update_ftrace_func(0x1000, 1, 2), 1, 2),
    ):
        assert edit.expected.tolist() == [[expected]]
        assert edit.replacement.tolist() == [[replacement]]
        assert edit.ips.tolist() == [0x1000]
    with pytest.raises(NotImplementedError, match="neither calls, nor make_nop"):
        BasePort(ARM64).make_nop(sites, 1)


@pytest.mark.parametrize("name", arches.built_in())
def test_a_jump_to_itself_is_recognised(name: str) -> None:
    port = arches.load(name)
    jump = port.facts.self_jump
    assert jump and port.call_target(0x4000, jump) == 0x4000
    assert not len(jump) % port.facts.insn_align
