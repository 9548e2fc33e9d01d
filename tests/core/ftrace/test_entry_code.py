"""Entry code that was assembled with the images, and entry code that Keystone assembles."""

from __future__ import annotations

import sys
from unittest.mock import patch

import pytest

from dynftrace import arches
from dynftrace.core.asm.assemble import assemble
from dynftrace.core.errors import AssemblyError
from dynftrace.core.ftrace import entry_code as entry_codes
from dynftrace.core.ftrace.entry_code import entry_code
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

from ...support.keystone import needs_keystone


def nobody(*_: object) -> None:
    raise AssertionError("not needed")


@needs_keystone
@pytest.mark.parametrize("name", arches.names())
def test_gnu_as_and_keystone_make_the_same_code(name: str) -> None:
    port = arches.load(name)
    start = port.facts.map.tracer
    # Within reach. At the last one, the low half of some addresses on MIPS is negative.
    for at in (start, start + 0x4_2000, start + 0x4_7F00):

        def place(symbol: str, at: int = at) -> int:
            return at + 0x1000 + 0x10 * len(symbol)

        with patch.object(entry_codes, "assemble", nobody):
            built = entry_code(port, at, place)
        assert built == assemble(port.facts, port.entry_source(), at, place)


@pytest.fixture
def without_keystone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `import keystone` fail."""
    monkeypatch.setitem(sys.modules, "keystone", None)


@pytest.mark.usefixtures("without_keystone")
def test_without_keystone_only_typed_assembly_is_missing() -> None:
    shell = Shell(Session.open(arches.load(arches.DEFAULT), MachineSpec()))
    assert "ftrace_caller" in shell.execute("echo function > current_tracer; site schedule").output
    refused = shell.execute("poke schedule nop")
    assert refused.status == 1
    assert refused.error == (
        "poke: cannot assemble: the package keystone-engine is not installed; "
        "bytes in hex work without it\n"
    )
    assert "nop" in shell.execute("poke schedule 90").output


@pytest.mark.usefixtures("without_keystone")
def test_a_changed_entry_source_needs_keystone() -> None:
    port = arches.load(arches.DEFAULT)
    changed = port.entry_source() + "\n nop\n"
    with pytest.raises(AssemblyError, match=r"entry\.o was not built from this entry\.S: install"):
        entry_code(port, port.facts.map.tracer, lambda name: 0, changed)
