"""A module's file content for its loaded text, compared with pyelftools."""

from __future__ import annotations

import pytest
from elftools.elf.elffile import ELFFile

from dynftrace import arches
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.views.filetext import file_text

from ...support import equilibrium

FUNCTION = "usb_ifnum_to_if"


@pytest.fixture(scope="module", params=arches.names())
def session(request: pytest.FixtureRequest) -> Session:
    """A machine with usbcore."""
    spec = MachineSpec(modules=("usbcore",), cpus=1)
    session = Session.open(arches.load(request.param), spec)
    equilibrium.reach(session)
    return session


def site(session: Session) -> tuple[int, int]:
    """Return the record of the function and its address."""
    records = session.boot.ftrace.records
    row = records.names.index(session.port.facts.abi.text_prefix + FUNCTION)
    return row, int(records.table["ip"][row])


def calls_mcount(session: Session) -> bool:
    """Return whether a compiled site is a call, and not just room for one."""
    return session.port.facts.sites.sections != ("__patchable_function_entries",)


def test_bytes_and_relocations_are_those_of_the_file(session: Session) -> None:
    _, ip = site(session)
    size = session.port.facts.sites.size
    found = file_text(session.boot.modules.loaded, ip, size)
    assert found is not None and found.address == ip
    (module,) = session.boot.modules.loaded
    with module.image.path.open("rb") as file:
        elf = ELFFile(file)
        (symbol,) = elf.get_section_by_name(".symtab").get_symbol_by_name(
            session.port.facts.abi.text_prefix + FUNCTION
        )
        section = elf.get_section(symbol["st_shndx"])
        offset = ip - module.linked.bases[symbol["st_shndx"]]
        assert found.data == section.data()[offset : offset + size]
        table = elf.get_section_by_name(f".rela{section.name}") or elf.get_section_by_name(
            f".rel{section.name}"
        )
        names = elf.get_section(table["sh_link"])
        pending = [
            (ip - offset + each["r_offset"], names.get_symbol(each["r_info_sym"]).name)
            for each in table.iter_relocations()
            if offset <= each["r_offset"] < offset + size
        ]
    assert [(each.place, each.symbol) for each in found.pending] == pending
    if calls_mcount(session):
        assert pending[0][1] == session.port.facts.sites.mcount_symbols[0]
    assert all(each.kind.startswith("R_") for each in found.pending)


def test_the_view_shows_how_insmod_changed_the_site(session: Session) -> None:
    row, _ = site(session)
    view = session.call_site(session.boot.ftrace.records.ip_of(row))
    rows = [each for each in view.rows if each.is_site]
    stored = b"".join((each.in_file or each.compiled).data for each in rows)
    found = file_text(session.boot.modules.loaded, rows[0].address, len(stored))
    assert found is not None and stored == found.data
    if not calls_mcount(session):
        assert not view.relocated and not view.relocations
        return
    assert view.relocated and rows[0].in_file is not None
    mcount = session.port.facts.sites.mcount_symbols[0]
    assert any(each.endswith(f" {mcount}") for each in view.relocations)
    if session.port.stubs is not None:
        # After a call that goes through a stub, the compiler left a nop.
        assert rows[0].in_file.asm.endswith(f" {mcount}")
        assert [each.in_file.asm for each in rows[1:] if each.in_file] == ["nop"] * (len(rows) - 1)
    kernel = session.boot.ftrace.records.names.index(
        session.port.facts.abi.text_prefix + "schedule"
    )
    assert not session.call_site(session.boot.ftrace.records.ip_of(kernel)).relocated


def test_there_is_no_file_text_outside_modules(session: Session) -> None:
    (module,) = session.boot.modules.loaded
    modules = session.boot.modules.loaded
    schedule = session.code_address("schedule")
    assert schedule is not None
    assert file_text(modules, schedule, 4) is None
    assert file_text(modules, module.base - 4, 8) is None
    assert file_text(modules, module.base + module.size - 4, 8) is None
    assert file_text((), module.base, 4) is None
