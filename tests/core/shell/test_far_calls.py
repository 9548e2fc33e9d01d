"""Modules whose calls go through stubs, in site, tramp and the filters."""

from __future__ import annotations

import re

import numpy as np
import pytest

from dynftrace import arches
from dynftrace.core.shell.shell import Shell

from ...support.user import opened

FAR = [name for name in arches.names() if arches.load(name).stubs is not None]

FUNCTION = "usb_ifnum_to_if"


@pytest.fixture(params=FAR)
def shell(request: pytest.FixtureRequest) -> Shell:
    """A machine with usbcore, loaded far away if the port has two areas."""
    shell = Shell(opened(request.param, cpus=1))
    shell.session.insmod("usbcore", far=shell.session.port.facts.modules_far is not None)
    return shell


def name_of_stub(shell: Shell) -> str:
    """Return the name of the stub of ftrace_caller."""
    stubs = shell.session.port.stubs
    assert stubs is not None
    return stubs.facts.names.get("ftrace_caller", "ftrace_caller.stub")


def calls_mcount(shell: Shell) -> bool:
    """Return whether compiled sites call mcount through a stub."""
    sites = shell.session.boot.ftrace.records.sites(np.array([row(shell)]))
    return bool(shell.session.port.init_nop(sites, 0).via)


def sh(shell: Shell, text: str) -> str:
    outcome = shell.execute(text)
    assert (outcome.error, outcome.status) == ("", 0), text
    return outcome.output


def row(shell: Shell) -> int:
    """Return the record of the function in usbcore."""
    records = shell.session.boot.ftrace.records
    return records.names.index(shell.session.port.facts.abi.text_prefix + FUNCTION)


def trace(shell: Shell) -> None:
    sh(shell, f"echo {FUNCTION} > set_ftrace_filter; echo function > current_tracer")


def test_the_call_path_leads_through_the_stub(shell: Shell) -> None:
    trace(shell)
    hops = shell.session.call_path(shell.session.boot.ftrace.records.ip_of(row(shell)))
    assert [hop.label for hop in hops][:3] == ["site", "stub", "ftrace_caller"]
    assert all(hop.verified for hop in hops)
    site, stub, caller = hops[:3]
    assert (site.target, stub.target) == (stub.address, caller.address)
    assert any(name_of_stub(shell) in text for _, text in site.insns)
    facts = shell.session.port.stubs
    assert facts is not None and len(stub.data) == facts.facts.size
    data = [text for insn, text in stub.insns if not insn.decoded]
    assert data in ([], [".long 0x0", ".quad ftrace_caller", ".quad TOC"])


def test_site_accepts_a_name_with_or_without_the_prefix(shell: Shell) -> None:
    trace(shell)
    text = sh(shell, f"site {FUNCTION}")
    assert text == sh(shell, f"site {shell.session.port.facts.abi.text_prefix}{FUNCTION}")
    assert f"{FUNCTION} [usbcore]  ip " in text
    stub = re.escape(name_of_stub(shell))
    assert re.search(rf"^calls ftrace_caller through {stub} at [0-9a-f]+$", text, re.M)
    assert ("_mcount.stub" in text) == calls_mcount(shell)
    assert "!" not in text


def test_tramp_lists_every_stub_and_its_users(shell: Shell) -> None:
    text = sh(shell, "tramp usbcore")
    heads = re.findall(r"^[0-9a-f]+  (\S+)  (\S+)\s+leads to (\S+)$", text, re.M)
    assert len(heads) == len(shell.session.boot.modules.loaded[0].stubs)
    prefix = shell.session.port.facts.abi.text_prefix
    assert {sign for _, sign, _ in heads} == {"ok"}
    names = shell.session.port.stubs.facts.names
    assert all(
        name == names.get(callee, f"{callee}.stub")
        for name, callee in ((name, target.removeprefix(prefix)) for name, _, target in heads)
    )
    sites = shell.session.boot.ftrace.records.module_names().count("usbcore")
    assert text.count(f"     {sites} call sites as compiled\n") == calls_mcount(shell)
    callers = shell.session.boot.ftrace.entry.callers
    assert text.count(f"     {sites} call sites when enabled\n") == len(callers)
    one = sh(shell, "tramp usbcore ftrace_caller").splitlines()
    assert "\n".join(one) in text
    assert shell.execute("tramp usbcore nosuch").error.endswith("no stub of nosuch\n")


def test_a_damaged_stub_is_shown_in_all_views(shell: Shell) -> None:
    session = shell.session
    stub = session.call_path(session.boot.ftrace.records.ip_of(row(shell)))[1]
    other = session.address_of("printk.stub")
    size = len(stub.data)
    sh(shell, f"poke 0x{stub.address:x} {session.boot.machine.memory.read(other, size).hex(' ')}")
    broken = session.call_path(session.boot.ftrace.records.ip_of(row(shell)))[1]
    assert not broken.verified and broken.target != stub.target
    assert any(broken.wrong(insn) for insn, _ in broken.insns)
    told = sh(shell, "tramp usbcore ftrace_caller").splitlines()
    assert told[0].endswith("  !") and "; leads " in told[1]
    outcome = shell.execute(f"echo {FUNCTION} > set_ftrace_filter; echo function > current_tracer")
    assert outcome.status == 1
    assert "ftrace bug" in sh(shell, "dmesg")


def test_output_fits_a_terminal(shell: Shell) -> None:
    before = sh(shell, f"site {FUNCTION}; site _raw_spin_unlock_irqrestore; tramp; tramp usbcore")
    assert f"when enabled, calls ftrace_caller through {name_of_stub(shell)} at " in before
    trace(shell)
    after = sh(shell, f"site {FUNCTION}; tramp")
    assert [line for line in (before + after).splitlines() if len(line) > 80] == []


def test_dump_takes_symbols_literally(shell: Shell) -> None:
    session = shell.session
    toc = session.port.facts.abi.toc
    if toc is None:
        assert sh(shell, "dump schedule 1") == sh(
            shell, f"dump 0x{session.address_of('schedule'):x} 1"
        )
        return
    own, code = (session.boot.kallsyms.address(prefix + "schedule") for prefix in ("", toc.prefix))
    assert own is not None and code is not None
    found = [line.split("  ")[3:] for line in sh(shell, "dump schedule 3").splitlines()]
    assert found == [[session.boot.kallsyms.format(code)], ["TOC"], []]
    assert sh(shell, f"dump {toc.prefix}schedule 1").startswith(f"{code:x}  ")
    assert sh(shell, "dump schedule+8 1").startswith(f"{own + 8:x}  ")
    assert sh(shell, f"dump {FUNCTION}+8 1").endswith("  TOC [usbcore]\n")
    assert sh(shell, "dump ftrace_caller.stub+0x28 1").endswith("  TOC\n")
    # A name that only code has means the code.
    assert sh(shell, "dump ftrace_caller 1").startswith(
        f"{session.boot.ftrace.entry['ftrace_caller']:x}"
    )


def test_names_are_found_and_completed_without_the_prefix(shell: Shell) -> None:
    prefix = shell.session.port.facts.abi.text_prefix
    name = prefix + FUNCTION
    assert f"{name} [usbcore]" in sh(shell, "cat available_filter_functions").splitlines()
    sh(shell, f"echo '{FUNCTION[:-2]}*' > set_ftrace_notrace")
    assert sh(shell, "cat set_ftrace_notrace") == f"{name} [usbcore]\n"
    for word in (FUNCTION[:8], name[:8]):
        found = shell.complete(f"site {word}").words
        assert (FUNCTION if not word.startswith(prefix or "\0") else name) in found
        assert all(each.startswith(word) for each in found)
