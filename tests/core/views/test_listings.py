"""The compiler's lists of call sites, entry by entry, on every port that has one."""

from __future__ import annotations

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

from dynftrace import arches
from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell
from dynftrace.core.views.listings import Listing

from ...support.user import opened

LISTED = [name for name in arches.names() if arches.load(name).facts.sites.sections]


@pytest.fixture(scope="module", params=LISTED)
def session(request: pytest.FixtureRequest) -> Session:
    """A machine with usbcore."""
    return opened(request.param, modules=("usbcore",), cpus=1)


def test_every_record_comes_from_one_entry(session: Session) -> None:
    kernel, module = session.listings()
    rows = [entry.row for each in (kernel, module) for entry in each.entries]
    made = sorted(row for row in rows if row is not None)
    assert made == list(range(len(session.boot.ftrace.records)))
    ips = session.boot.ftrace.records.table["ip"].tolist()
    for each in (kernel, module):
        assert each.count == len(each.entries)
        for entry in each.entries:
            assert entry.place == each.address + entry.number * each.word
            adjusted = session.port.call_adjust(np.array([entry.value], np.uint64))[0]
            assert entry.row is None or ips[entry.row] == adjusted


def test_the_entries_agree_with_the_elf_tools(session: Session) -> None:
    kernel, module = session.listings()
    images = session.port.images()
    with (images / "usbcore.ko").open("rb") as file:
        elf = ELFFile(file)
        table = elf.get_section_by_name(module.compiled)
        asked = next(
            each
            for each in elf.iter_sections()
            if isinstance(each, RelocationSection)
            and elf.get_section(each["sh_info"]).name == module.compiled
        )
        check_words(module, table.data(), session)
        kinds = {
            row["r_offset"]: session.port.relocation_name(row["r_info_type"])
            for row in asked.iter_relocations()
        }
        for entry in module.entries:
            assert entry.relocation.split()[0] == kinds[entry.place - module.address]
    with (images / "vmlinux.elf").open("rb") as file:
        section = ELFFile(file).get_section_by_name(kernel.section)
        start = kernel.address - section["sh_addr"]
        check_words(kernel, section.data()[start:][: kernel.count * kernel.word], session)


def check_words(shown: Listing, data: bytes, session: Session) -> None:
    order = session.port.facts.byteorder
    assert [entry.stored.to_bytes(shown.word, order) for entry in shown.entries] == [
        data[at : at + shown.word] for at in range(0, len(data), shown.word)
    ]


def test_records_shows_the_entries_of_functions(session: Session) -> None:
    prefix = session.port.facts.abi.text_prefix
    outcome = Shell(session).execute("records schedule usb_alloc_dev")
    assert (outcome.error, outcome.status) == ("", 0)
    lines = outcome.output.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("    record ")] == [
        f"{prefix}schedule",
        f"{prefix}usb_alloc_dev",
    ]
    by_sed = "by sed" in (session.port.images() / "BUILD.txt").read_text()
    assert lines[1].startswith("made from the" if by_sed else "left by the compiler in ")
    assert max(map(len, lines)) <= 70  # fits into the console's box at 80 columns
    refused = Shell(session).execute("records nosuch")
    assert refused.error == "records: nosuch: no function of that name has a record\n"


def test_the_full_list_is_one_line_an_entry(session: Session) -> None:
    lines = Shell(session).execute("records").output.splitlines()
    entries = [line for line in lines if line.lstrip().startswith("[")]
    assert len(entries) == len(session.boot.ftrace.records)
    assert len(lines) - len(entries) <= 2 * 4 + 1
    assert not any(line != line.rstrip() for line in lines)
