"""Mistakes in the verbs: another nop, a wrong distance, text that is not compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dynftrace.core.arch import Edit, Effect, Sites
from dynftrace.core.crash import Crash

from .mutant import AnyPort, Mutant, other, verb

_FIVE = ("x86_64", "i386", "ppc64", "mips", "arm64")


def _changed(edit: Edit, **changes: Any) -> Edit:
    return replace(edit, **changes)


def _each(
    name: str, check: str, ports: tuple[str, ...] = _FIVE, **verbs: Callable[..., Any]
) -> tuple[Mutant, ...]:
    """Return the same mistake in several ports."""
    return tuple(verb(name, port, check, **verbs) for port in ports)


def _narrow(edit: Edit, width: int) -> Edit:
    """Return `edit` for the first bytes of each site only."""
    return replace(
        edit,
        expected=edit.expected[:, :width],
        replacement=edit.replacement[:, :width],
        lengths=None,
    )


def _without_lead(edit: Edit) -> Edit:
    """Return `edit` without the words before rec.ip."""
    lead = edit.lead
    return replace(
        edit,
        address=edit.address + np.uint64(lead),
        expected=edit.expected[:, lead:],
        replacement=edit.replacement[:, lead:],
    )


def _first_bytes_only(width: int) -> dict[str, Callable[..., Any]]:
    """Return verbs that compare and write the first `width` bytes of a site."""
    return {
        "init_nop": lambda true, *rest: _narrow(true.init_nop(*rest), width),
        "make_nop": lambda true, *rest: _narrow(true.make_nop(*rest), width),
        "make_call": lambda true, *rest: _narrow(true.make_call(*rest), width),
        "modify_call": lambda true, *rest: _narrow(true.modify_call(*rest), width),
    }


def _wrong_nop(text: bytes) -> dict[str, Callable[..., Any]]:
    """Return verbs that agree on the disabled text `text`."""

    def row(count: int) -> Any:
        return np.tile(np.frombuffer(text, np.uint8), (count, 1))

    return {
        "init_nop": lambda true, sites, mcount: _changed(
            true.init_nop(sites, mcount), replacement=row(len(sites))
        ),
        "make_nop": lambda true, sites, target: _changed(
            true.make_nop(sites, target), replacement=row(len(sites))
        ),
        "make_call": lambda true, sites, target: _changed(
            true.make_call(sites, target), expected=row(len(sites))
        ),
    }


def _moved(by: int) -> dict[str, Callable[..., Any]]:
    """Return verbs that count the distance of a call from a place `by` bytes away."""

    def at(sites: Sites) -> Sites:
        return replace(sites, ip=sites.ip + np.uint64(by % 2**64))

    def back(edit: Edit) -> Edit:
        return replace(edit, address=edit.address - np.uint64(by % 2**64))

    return {
        "make_nop": lambda true, sites, *rest: back(true.make_nop(at(sites), *rest)),
        "make_call": lambda true, sites, *rest: back(true.make_call(at(sites), *rest)),
        "modify_call": lambda true, sites, *rest: back(true.modify_call(at(sites), *rest)),
    }


def _shorter(true: AnyPort, edit: Edit, target: int, reach: int) -> Edit:
    """Return `edit` with targets refused that are exactly `reach` bytes away."""
    near = np.array([abs(target - int(ip)) < reach for ip in edit.address])
    return replace(edit, reachable=edit.reachable & near)


def _without_via(edit: Edit) -> Edit:
    return replace(edit, via=())


def _emulated(change: Callable[[dict[str, int]], dict[str, int]]) -> Callable[..., Effect]:
    def emulate(true: AnyPort, *rest: Any) -> Effect:
        effect = true.emulate(*rest)
        return Effect(change(dict(effect.registers)), effect.stores)

    return emulate


def _form(**changes: Any) -> Callable[[AnyPort], AnyPort]:
    """Return a change of a port's form of call sites."""
    return lambda true: replace(true, form=replace(true.form, **changes))


def _far_slot(true: AnyPort, slot: int, caller: int) -> Edit:
    edit: Edit = true.enable_graph_caller(slot, caller + 8)
    return edit


def _half_signed(true: AnyPort, ip: int, text: bytes) -> int | None:
    """Return a target whose distance loses its sign."""
    target = true.call_target(ip, text)
    return target if target is None or target >= ip else target + (1 << 26)


def _credulous(true: AnyPort, sites: Sites, mcount: int) -> Edit:
    """Return the first edit of the sites, which expects any text that the compiler left."""
    edit: Edit = true.init_nop(sites, mcount)
    expected = edit.expected.copy()
    expected[:, edit.lead :] = sites.compiled[:, : expected.shape[1] - edit.lead]
    return replace(edit, expected=expected)


def _forward_only(true: AnyPort, registers: Any, ip: int, text: bytes) -> Effect:
    """Return the effect of a site, with the sign of a distance lost."""
    effect: Effect = true.emulate(registers, ip, text)
    pc = true.facts.abi.pc.name
    target = effect.registers[pc]
    return Effect({**effect.registers, pc: target + (target < ip) * (1 << 26)}, effect.stores)


def _oops_without(text: str) -> Callable[..., tuple[str, ...]]:
    return lambda true, crash: tuple(line for line in true.oops(crash) if text not in line)


def _exchanged(one: str, other: str) -> Callable[..., tuple[str, ...]]:
    """Return an oops report with the values of two registers exchanged."""

    def oops(true: AnyPort, crash: Crash) -> tuple[str, ...]:
        values = crash.registers
        wrong = {**values, one: values[other], other: values[one]}
        lines: tuple[str, ...] = true.oops(replace(crash, registers=wrong))
        return lines

    return oops


VERBS = (
    *_each("distance from 4 bytes later", "reach", ("x86_64", "ppc64", "arm64"), **_moved(4)),
    verb(
        "nop of four bytes and a stray one",
        "x86_64",
        "disabled",
        **_wrong_nop(bytes.fromhex("0f 1f 40 00 c3")),
    ),
    verb(
        "nop that sets flags and eax",
        "i386",
        "disabled",
        **_wrong_nop(bytes.fromhex("b8 00 00 00 00")),
    ),
    verb(
        "nop that changes r0's neighbour",
        "ppc32",
        "disabled",
        **_wrong_nop(bytes.fromhex("38 63 00 01")),
    ),
    verb(
        "nop that clears x19",
        "arm64-mcount",
        "disabled",
        **_wrong_nop(bytes.fromhex("13 00 80 d2")),
    ),
    verb("first word only", "ppc64", "batches", **_first_bytes_only(4)),
    verb("first word only", "mips", "batches", **_first_bytes_only(4)),
    verb("first half of the branch only", "arm64", "batches", **_first_bytes_only(2)),
    verb(
        "mov x9, x30 is never written",
        "arm64",
        "function",
        init_nop=lambda true, *rest: _without_lead(true.init_nop(*rest)),
    ),
    *_each(
        "make_call says that everything is in reach",
        "reach",
        ("x86_64", "ppc64", "mips", "arm64"),
        make_call=lambda true, *rest: _changed(
            true.make_call(*rest), reachable=np.ones(len(rest[0]), np.bool_)
        ),
    ),
    *_each(
        "make_nop says that everything is in reach",
        "reach",
        ("x86_64", "ppc64", "mips", "arm64"),
        make_nop=lambda true, *rest: _changed(
            true.make_nop(*rest), reachable=np.ones(len(rest[0]), np.bool_)
        ),
    ),
    *_each(
        "modify_call forgets whether the old target is in reach",
        "reach",
        ("x86_64", "ppc64", "mips", "arm64"),
        modify_call=lambda true, sites, old, new: _changed(
            true.modify_call(sites, old, new), reachable=true.make_call(sites, new).reachable
        ),
    ),
    verb(
        "the last target in reach is refused",
        "ppc64",
        "reach",
        make_call=lambda true, sites, target: _shorter(
            true, true.make_call(sites, target), target, 1 << 25
        ),
    ),
    verb(
        "the last target in reach is refused",
        "arm64-mcount",
        "reach",
        make_call=lambda true, sites, target: _shorter(
            true, true.make_call(sites, target), target, 1 << 27
        ),
    ),
    *_each("call_target ignores the sign", "reach", ("ppc64", "arm64"), call_target=_half_signed),
    *_each(
        "make_nop does not name the stub",
        "stub calls",
        ("ppc64", "mips", "arm64"),
        make_nop=lambda true, *rest: _without_via(true.make_nop(*rest)),
    ),
    *_each(
        "make_call does not name the stub",
        "stub calls",
        ("ppc64", "mips", "arm64"),
        make_call=lambda true, *rest: _without_via(true.make_call(*rest)),
    ),
    *_each(
        "modify_call names the new stub only",
        "stub calls",
        ("ppc64", "mips", "arm64"),
        modify_call=lambda true, sites, old, new: _changed(
            true.modify_call(sites, old, new), via=true.make_call(sites, new).via
        ),
    ),
    *_each(
        "modify_call expects the new call",
        "modify_call",
        _FIVE,
        modify_call=lambda true, sites, old, new: true.modify_call(sites, new, new),
    ),
    *_each(
        "the graph slot calls 8 bytes too far", "graph slot", _FIVE, enable_graph_caller=_far_slot
    ),
    *_each(
        "emulating a call changes sp too",
        "emulate",
        _FIVE,
        emulate=lambda true, registers, *rest: Effect(
            {
                **true.emulate(registers, *rest).registers,
                true.facts.abi.sp.name: registers[true.facts.abi.sp.name] - 32,
            }
        ),
    ),
    *_each(
        "emulating a call returns to its start",
        "emulate",
        ("ppc64", "mips", "arm64"),
        emulate=lambda true, registers, ip, text: Effect(
            {
                name: value - 4 if name == true.facts.abi.link.name else value
                for name, value in true.emulate(registers, ip, text).registers.items()
            }
        ),
    ),
    *_each("emulating a call back loses its sign", "emulate", _FIVE, emulate=_forward_only),
    *_each(
        "init_nop expects any text",
        "init_nop",
        ("x86_64", "ppc64", "mips", "arm64-mcount"),
        init_nop=_credulous,
    ),
    *_each(
        "every address follows a call",
        "return address",
        ("ppc64", "mips", "arm64"),
        is_return_address=lambda true, before: any(before),
    ),
    *_each(
        "no address follows a call",
        "return address",
        _FIVE,
        is_return_address=lambda true, before: False,
    ),
    verb("no delay slots", "mips", "delay slots", has_delay_slot=lambda true, text: False),
    *_each(
        "the oops lacks the code",
        "oops report",
        ("x86_64", "arm64", "mips"),
        oops=_oops_without("Code:"),
    ),
    verb("rax and rbx exchanged", "x86_64", "oops report", oops=_exchanged("rax", "rbx")),
    verb("r4 and r5 exchanged", "ppc64", "oops report", oops=_exchanged("r4", "r5")),
    verb("x3 and x4 exchanged", "arm64", "oops report", oops=_exchanged("x3", "x4")),
    verb("the oops lacks the registers", "ppc64", "oops report", oops=_oops_without("GPR")),
    *_each(
        "the last argument is dropped",
        "enter_call",
        _FIVE,
        enter_call=lambda true, function, arguments, *rest: true.enter_call(
            function, [*arguments][:-1], *rest
        ),
    ),
    *_each(
        "the stack of a call is 4 bytes off",
        "enter_call",
        ("ppc64", "mips", "arm64"),
        enter_call=lambda true, function, arguments, sp, back: _lower(
            true.enter_call(function, arguments, sp, back), true
        ),
    ),
    other("nop after a module's call", "ppc64", "damaged stub", _form(stub=(0x6000_0000,))),
    other(
        "a module's near call goes past its stub", "ppc64", "stub calls", _form(prefer_stub=False)
    ),
    other("the delay slot adds to sp", "mips", "init_nop", _form(slot=0x27BD_0008)),
    other("words in the wrong byte order", "mipsel", "init_nop", _form(order="big")),
    other("x30 not saved before the call", "arm64", "arguments", _form(before=(0xD503_201F,))),
)


def _lower(effect: Effect, true: AnyPort) -> Effect:
    sp = true.facts.abi.sp.name
    return Effect({**effect.registers, sp: effect.registers[sp] - 4}, effect.stores)
