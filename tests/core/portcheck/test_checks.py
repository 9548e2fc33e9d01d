"""Ports with one mistake each: the matching check fails and shows the bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynftrace import arches
from dynftrace.arches.x86.x86_64.port import FACTS, X8664Port
from dynftrace.arches.x86.x86_64.trampoline import Copies
from dynftrace.core.arch import Addresses, Edit, Effect, Sites, TrampolineCode
from dynftrace.core.facts import Facts
from dynftrace.core.portcheck import (
    CHECKS,
    Failed,
    NotProvided,
    Outcome,
    Passed,
    PortUnderTest,
)
from dynftrace.core.portcheck.check import HEADINGS

from ...support.keystone import INSTALLED, needs_keystone

ONE_BYTE_NOPS = bytes.fromhex("90 90 90 90 90")


def outcome(port: object, name: str) -> Outcome:
    (check,) = (check for check in CHECKS if check.name == name)
    return check.run(PortUnderTest(port))  # type: ignore[arg-type]


def failure(port: object, name: str) -> Failed:
    found = outcome(port, name)
    assert isinstance(found, Failed), found
    return found


def changed(edit: Edit, replacement: bytes) -> Edit:
    return replace(
        edit, replacement=np.tile(np.frombuffer(replacement, np.uint8), (len(edit.address), 1))
    )


@dataclass(frozen=True, slots=True)
class WrongNop(X8664Port):
    """Disables with five nops where make_call expects one."""

    def make_nop(self, sites: Sites, target: int) -> Edit:
        return changed(X8664Port.make_nop(self, sites, target), ONE_BYTE_NOPS)


def test_a_nop_that_make_call_does_not_expect_is_shown() -> None:
    found = failure(WrongNop(), "make_nop")
    assert found.expected == bytes.fromhex("0f 1f 44 00 00")
    assert found.found == ONE_BYTE_NOPS
    assert found.ip is not None and found.ip >> 24 == 0xFFFFFFFF81
    assert outcome(WrongNop(), "make_call") == Passed()


@dataclass(frozen=True, slots=True)
class CallsBeside(X8664Port):
    """Calls one byte past the target."""

    def make_call(self, sites: Sites, target: int) -> Edit:
        return X8664Port.make_call(self, sites, target + 1)


def test_a_call_of_the_wrong_target_is_shown() -> None:
    found = failure(CallsBeside(), "make_call")
    assert found.found[:1] == b"\xe8"
    assert f"to {FACTS.map.tracer + 1:x}, not to {FACTS.map.tracer:x}" in found.reason


@dataclass(frozen=True, slots=True)
class InitExpects(X8664Port):
    """Expects calls of a function other than mcount."""

    def init_nop(self, sites: Sites, mcount: int) -> Edit:
        return X8664Port.init_nop(self, sites, mcount + 16)


def test_an_unexpected_compiled_site_is_shown() -> None:
    found = failure(InitExpects(), "init_nop")
    assert found.expected[0] == found.found[0] == 0xE8
    assert found.expected != found.found


@dataclass(frozen=True, slots=True)
class ChangesItsArguments(X8664Port):
    """Sorts its arguments in place."""

    def make_call(self, sites: Sites, target: int) -> Edit:
        sites.ip[:] = sites.ip[::-1]
        return X8664Port.make_call(self, sites, target)


def test_a_verb_that_is_not_pure_fails() -> None:
    assert "changes the array" in failure(ChangesItsArguments(), "batches").reason


@dataclass(frozen=True, slots=True)
class ReachesAll(X8664Port):
    """Claims that every target is within reach."""

    def make_call(self, sites: Sites, target: int) -> Edit:
        edit = X8664Port.make_call(self, sites, target)
        return replace(edit, reachable=np.ones(len(sites), np.bool_))


def test_a_call_said_to_reach_what_it_does_not_fails() -> None:
    assert "reported in reach" in failure(ReachesAll(), "reach").reason


@dataclass(frozen=True, slots=True)
class ForgetsToPush(X8664Port):
    """Claims that a call does not change sp."""

    def emulate(self, registers: Mapping[str, int], ip: int, text: bytes) -> Effect:
        effect = X8664Port.emulate(self, registers, ip, text)
        return Effect({"rip": effect.registers["rip"]})


def test_the_described_effect_of_a_site_is_compared_with_the_engine() -> None:
    assert failure(ForgetsToPush(), "emulate").reason.startswith("rsp is ")


@dataclass(frozen=True, slots=True)
class OtherEntry(X8664Port):
    """x86-64 with other entry code."""

    text: str = ""

    def entry_source(self) -> str:
        return self.text


def entry(before: str, after: str) -> OtherEntry:
    source = X8664Port().entry_source()
    assert before in source
    return OtherEntry(text=source.replace(before, after, 1))


@needs_keystone
def test_entry_code_that_loses_a_register_fails() -> None:
    port = entry("ftrace_caller:\n", "ftrace_caller:\n        xor r8d, r8d\n")
    assert failure(port, "registers kept").reason.startswith("r8 is 0 after it, but ")
    assert outcome(port, "pt_regs") == Passed()


@needs_keystone
def test_a_missing_label_is_named() -> None:
    port = entry(".globl ftrace_stub", "")
    assert failure(port, "labels").reason == "entry.S does not export ftrace_stub"


@needs_keystone
def test_half_a_graph_tracer_fails_and_none_is_not_provided() -> None:
    port = entry(".globl return_to_handler", "")
    assert failure(port, "return_to_handler").reason == "entry.S has no return_to_handler"
    source = X8664Port().entry_source()
    for label in ("ftrace_graph_call", "ftrace_graph_caller", "return_to_handler"):
        source = source.replace(f".globl {label}\n", "\n")
    none = OtherEntry(text=source)
    assert isinstance(outcome(none, "return_to_handler"), NotProvided)
    assert isinstance(outcome(none, "graph"), NotProvided)


STOPPED = """
        cmp     dword ptr [rip + function_trace_stop], 0
        jne     ftrace_stub
"""
WORD = """
        .balign 4
        .globl function_trace_stop
function_trace_stop:
        .long   0
"""


@needs_keystone
def test_entry_code_must_test_its_trace_stop() -> None:
    source = X8664Port().entry_source().replace("function_trace_stop", "another_word")
    assert isinstance(outcome(OtherEntry(text=source), "trace stop"), NotProvided)
    ignored = OtherEntry(text=source + WORD)
    assert failure(ignored, "trace stop").reason == "the tracer is called although it is stopped"
    for label in ("ftrace_caller", "ftrace_regs_caller"):
        source = source.replace(f"{label}:\n", f"{label}:\n{STOPPED}", 1)
    obeyed = OtherEntry(text=source + WORD)
    assert outcome(obeyed, "trace stop") == Passed()


@dataclass(frozen=True, slots=True)
class WithFacts(X8664Port):
    """x86-64 with other facts."""

    facts: Facts = FACTS


@pytest.mark.parametrize(
    ("facts", "check", "reason"),
    [
        (replace(FACTS, byteorder="middle"), "facts", "byteorder is 'middle'"),
        (
            replace(FACTS, patch_methods=("hope",)),
            "facts",
            "unknown patch method or discovery: hope",
        ),
        (replace(FACTS, breakpoint=None), "facts", "need each other"),
        (replace(FACTS, map=replace(FACTS.map, tracer=0x1001)), "map", "tracer is 1001"),
        (replace(FACTS, map=replace(FACTS.map, modules=1 << 64)), "map", "addresses have 64 bits"),
    ],
)
def test_inconsistent_facts_are_named(facts: Facts, check: str, reason: str) -> None:
    assert reason in failure(WithFacts(facts=facts), check).reason


class Started:
    """A port that has only facts."""

    facts = FACTS

    def images(self) -> Path:
        return arches.load("x86_64").images()


def test_missing_verbs_are_not_provided_and_do_not_fail() -> None:
    outcomes = {check.name: check.run(PortUnderTest(Started())) for check in CHECKS}  # type: ignore[arg-type]
    assert not [name for name, each in outcomes.items() if isinstance(each, Failed)]
    passed = {name for name, each in outcomes.items() if each == Passed()}
    assert {"facts", "map", "images", *(["engines"] if INSTALLED else [])} <= passed
    assert outcomes["emulate"] == NotProvided("the port has no make_call")
    assert outcomes["labels"] == NotProvided("the port has no entry_source")


class Intends(Started):
    """A verb that raises NotImplementedError."""

    def call_adjust(self, addresses: Addresses) -> Addresses:
        raise NotImplementedError

    def make_call(self, sites: Sites, target: int) -> Edit:
        raise KeyError(target)


def test_an_unimplemented_verb_is_not_provided_and_one_that_raises_fails() -> None:
    assert outcome(Intends(), "call_adjust") == NotProvided("call_adjust is not implemented")
    assert "KeyError" in failure(Intends(), "emulate").reason


class Homeless(Started):
    """A port without images."""

    def images(self) -> Path:
        return Path("/nonexistent")


def test_without_images_checks_that_need_them_are_not_provided() -> None:
    for name in ("images", "boot", "init_nop"):
        assert outcome(Homeless(), name) == NotProvided(
            "image vmlinux.elf does not exist: build it"
        )


def test_every_heading_has_a_check_and_names_are_unique() -> None:
    assert {check.heading for check in CHECKS} == set(HEADINGS)
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    order = [HEADINGS.index(check.heading) for check in CHECKS]
    assert order == sorted(order)


class AnotherPointer(Copies):
    """Trampolines that pass the wrong pointer."""

    def make(self, *arguments: Any) -> TrampolineCode | None:
        return Copies.make(self, *arguments[:-1], arguments[-1] + 1)


@dataclass(frozen=True, slots=True)
class WrongPointer(X8664Port):
    @property
    def trampolines(self) -> Copies:
        return AnotherPointer()


def test_a_trampoline_with_the_wrong_pointer_is_found() -> None:
    found = failure(WrongPointer(), "trampoline")
    assert found.reason.startswith("the user's function gets ")
    assert "5a5a1235 instead of 5a5a1234" in found.reason
    assert found.ip is not None and found.found[0] == 0xE8
