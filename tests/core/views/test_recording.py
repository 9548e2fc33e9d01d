"""records --how: the calls of mcount in a file, and what ftrace compared at first."""

from __future__ import annotations

import pytest

from dynftrace.core.shell.shell import Shell
from dynftrace.core.views.call_site import find_sites

from ...support.ports import FAMILIES
from ...support.user import opened


@pytest.mark.parametrize("arch", FAMILIES)
def test_recordmcount_finds_the_sites_that_the_list_has(arch: str) -> None:
    session = opened(arch, modules=("usbcore",), cpus=1)
    ftrace = session.boot.ftrace
    patchable = arch == "arm64"
    for (found, change), listed in zip(session.recordings(), session.listings(), strict=True):
        assert found.file == listed.file
        ips = sorted(
            ftrace.records.ip_of(each.row) for each in listed.entries if each.row is not None
        )
        assert found.calls.tolist() == ([] if patchable else ips)
        assert change.sites == len(ips)
        assert change.compared == (0 if patchable else len(ips))
    stubs = session.port.stubs is not None and not patchable
    assert change.by_stub == (change.sites if stubs else 0)


@pytest.mark.parametrize("arch", FAMILIES)
def test_a_word_of_the_list_is_the_first_function_plus_an_offset(arch: str) -> None:
    session = opened(arch, modules=("usbcore",), cpus=1)
    prefix = session.port.facts.abi.text_prefix
    (ip,) = find_sites(session.boot.ftrace.records, "usb_alloc_dev", prefix)
    call = session.recorded_call(ip)
    if call is None:
        assert arch == "arm64"
        return
    assert call.function == f"{prefix}usb_alloc_dev"
    module = session.boot.modules.loaded[0]
    first = module.linked.symbols.address[module.linked.symbols.names.index(call.first)]
    assert int(first) + call.distance == module.sections[call.section] + call.offset == ip


def test_the_command_says_where_mcount_addr_is_compared() -> None:
    said = {}
    for arch in ("ppc64", "arm64", "mips", "x86_64-2008"):
        said[arch] = (
            Shell(opened(arch, modules=("usbcore",), cpus=1)).execute("records --how").output
        )
    mcount = (
        "the first make_nop compares 64 of 64 sites with a call of MCOUNT_ADDR, 64 through a stub"
    )
    assert mcount in said["ppc64"]
    assert "compares sites with nops, not with a call of MCOUNT_ADDR" in said["arm64"]
    assert "ftrace_dyn_arch_init  wrote j ftrace_caller; nop at _mcount+0x0" in said["mips"]
    assert "ftrace_dyn_arch_init  wrote nothing" in said["arm64"]
    assert said["x86_64-2008"].startswith("no list")
    assert max(len(line) for text in said.values() for line in text.splitlines()) <= 90
