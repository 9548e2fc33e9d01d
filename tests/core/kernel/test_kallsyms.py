"""Symbols by name and address, of a kernel and of modules loaded and unloaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynftrace import arches
from dynftrace.core.elf.image import Image
from dynftrace.core.elf.symbols import SymbolTable, cut_names
from dynftrace.core.kernel.kallsyms import Kallsyms

from ...support import elf_writer
from ...support.elf_writer import (
    ALLOC,
    EXEC,
    EXEC_FILE,
    FUNC,
    GLOBAL,
    LOCAL,
    OBJECT,
    PROGBITS,
    TEXT,
)
from ...support.user import opened

FACTS = arches.load("x86_64").facts


def table(tmp_path: Path, content: bytes) -> SymbolTable:
    return Image.load(elf_writer.write(tmp_path / "image", content), FACTS).symbols


def text_with(tmp_path: Path, *rows: tuple[str, int, int, int]) -> SymbolTable:
    """Make a table from (name, offset in .text, type, binding); .text has 0x100 bytes."""
    symbols = elf_writer.Symbols()
    for name, offset, kind, binding in rows:
        symbols.add(name, TEXT + offset, 1, kind, binding)
    text = elf_writer.Section(".text", PROGBITS, ALLOC | EXEC, bytes(0x100), TEXT)
    return table(tmp_path, elf_writer.elf(EXEC_FILE, [text], symbols))


@pytest.fixture
def kallsyms(tmp_path: Path) -> Kallsyms:
    kallsyms = Kallsyms()
    kallsyms.add(table(tmp_path, elf_writer.kernel(["schedule", "kmalloc"], symbols=1)))
    return kallsyms


def test_an_address_belongs_to_the_symbol_before_it(kallsyms: Kallsyms) -> None:
    assert kallsyms.address("schedule") == TEXT + 16
    found = kallsyms.lookup(TEXT + 16 + 5)
    assert found is not None
    assert (found.name, found.address, found.size, found.module) == (
        "schedule",
        TEXT + 16,
        16,
        None,
    )
    assert kallsyms.format(TEXT + 21) == "schedule+0x5/0x10"


def test_an_address_outside_every_section_has_no_symbol(kallsyms: Kallsyms) -> None:
    for address in (0, TEXT - 1, TEXT + 48, 2**64 - 1):
        assert kallsyms.lookup(address) is None
        assert kallsyms.format(address) == f"0x{address:x}"


def test_mapping_symbols_are_not_names(tmp_path: Path) -> None:
    """Arm's mapping symbols name nothing; a symbol that only looks like one does."""
    names = Kallsyms()
    rows = (
        ("$x", 0, elf_writer.NOTYPE, LOCAL),
        ("schedule", 0, FUNC, GLOBAL),
        ("$d", 0x10, elf_writer.NOTYPE, LOCAL),
        ("$x.7", 0x18, elf_writer.NOTYPE, LOCAL),
        ("$data", 0x20, elf_writer.NOTYPE, GLOBAL),
    )
    names.add(text_with(tmp_path, *rows))
    addresses = np.array([TEXT + 4 * row for row in range(9)], np.uint64)
    assert names.names_of(addresses) == ["schedule"] * 8 + ["$data"]
    assert [symbol.name for symbol in names.functions()] == ["schedule", "$data"]


def test_many_addresses_are_named_at_once(kallsyms: Kallsyms) -> None:
    addresses = np.array([TEXT + 33, TEXT, 5, TEXT + 31], np.uint64)
    assert kallsyms.names_of(addresses) == ["kmalloc", "__fentry__", "0x5", "schedule"]
    assert kallsyms.names_of(addresses[:0]) == []
    assert Kallsyms().names_of(addresses[:1]) == [f"0x{TEXT + 33:x}"]


def test_a_module_adds_its_symbols_and_removes_them(tmp_path: Path, kallsyms: Kallsyms) -> None:
    base = 0xFFFF_FFFF_A000_0000
    own = table(tmp_path, elf_writer.module(["usb_probe", "schedule"]))
    place = np.where(own.limit > 0, np.uint64(base), np.uint64(0))
    kallsyms.add(replace(own, address=own.address + place, limit=own.limit + place), "usb")
    assert kallsyms.format(base + 5) == "usb_probe+0x5/0x20 [usb]"
    assert kallsyms.address("schedule") == TEXT + 16, "the kernel's symbol must be found first"
    assert kallsyms.address("schedule", "usb") == base + 32
    kallsyms.remove("usb")
    assert kallsyms.lookup(base + 5) is None
    assert kallsyms.address("usb_probe") is None


def test_of_several_names_the_plainest_is_shown(tmp_path: Path) -> None:
    kallsyms = Kallsyms()
    kallsyms.add(
        text_with(
            tmp_path,
            ("local_name", 0x10, FUNC, LOCAL),
            ("__sys_read", 0x10, FUNC, GLOBAL),
            ("data_name", 0x10, OBJECT, GLOBAL),
            ("sys_read", 0x10, FUNC, GLOBAL),
        )
    )
    assert kallsyms.format(TEXT + 0x12) == "sys_read+0x2/0xf0"
    assert kallsyms.address("local_name") == TEXT + 0x10


def test_a_global_is_found_before_a_local_of_the_same_name(tmp_path: Path) -> None:
    symbols = text_with(
        tmp_path,
        ("init", 0x10, FUNC, LOCAL),
        ("init", 0x20, FUNC, LOCAL),
        ("init", 0x30, FUNC, GLOBAL),
    )
    assert symbols.address_of("init") == TEXT + 0x30
    symbols = text_with(tmp_path, ("init", 0x10, FUNC, LOCAL), ("init", 0x20, FUNC, LOCAL))
    assert symbols.address_of("init") == TEXT + 0x10


def test_functions_are_typed_symbols_and_code_labels(tmp_path: Path) -> None:
    symbols = text_with(
        tmp_path,
        ("function", 0, FUNC, GLOBAL),
        ("label", 8, 0, GLOBAL),
        ("table", 16, OBJECT, GLOBAL),
    )
    names = [symbols.names[row] for row in np.flatnonzero(symbols.functions)]
    assert names == ["function", "label"]


def test_names_may_share_their_tails_and_are_cut_at_a_limit() -> None:
    strings = np.frombuffer(b"\0kmem_cache_alloc\0" + b"x" * 2000 + b"\0", np.uint8)
    names = cut_names(strings, np.array([1, 6, 12, 0, 18], np.uint32))
    assert names[:4] == ["kmem_cache_alloc", "cache_alloc", "alloc", ""]
    assert names[4] == "x" * 512
    assert cut_names(strings, np.full(3, 18, np.uint32), most=600)[1:] == ["", ""]


def test_names_are_utf8_and_what_cannot_be_printed_is_replaced() -> None:
    wanted = {
        "größe": "größe",
        "文字列": "文字列",
        "a\u202eb": "a?b",  # reverses the order of what follows it on a terminal
        "a\x1b[2Jb": "a?[2Jb",
        "a\u0085b c": "a?b?c",
        "x" * 511 + "ß": "x" * 511 + "?",  # cut at KSYM_NAME_LEN bytes
    }
    blob = b"\0" + b"".join(name.encode() + b"\0" for name in wanted) + b"a\xffb\0"
    starts = [at + 1 for at, byte in enumerate(blob[:-1]) if byte == 0]
    names = cut_names(np.frombuffer(blob, np.uint8), np.array(starts, np.uint32))
    assert names == [*wanted.values(), "a?b"]


def test_tables_that_are_added_later_are_sorted_in(tmp_path: Path) -> None:
    tables = [
        text_with(tmp_path, ("first", 0x10, FUNC, GLOBAL), ("last", 0x80, FUNC, GLOBAL)),
        text_with(tmp_path, ("alias", 0x10, FUNC, GLOBAL), ("between", 0x40, OBJECT, LOCAL)),
        text_with(tmp_path, ("before", 0, FUNC, GLOBAL), ("after", 0xF0, FUNC, GLOBAL)),
    ]
    one_by_one, at_once = Kallsyms(), Kallsyms()
    for number, each in enumerate(tables):
        one_by_one.add(each, f"m{number}" if number else None)
        at_once.add(each, f"m{number}" if number else None)
        assert one_by_one.lookup(TEXT + 0x12) is not None
    assert one_by_one.text(8) == at_once.text(8)
    for address in range(TEXT, TEXT + 0x110, 8):
        assert one_by_one.lookup(address) == at_once.lookup(address)
    one_by_one.remove("m1")
    found = one_by_one.lookup(TEXT + 0x44)
    assert found is not None and found.name == "first"


def test_local_symbols_have_small_letters() -> None:
    text = opened().boot.kallsyms.text(8)
    letters = {line.split()[2]: line.split()[1] for line in text.splitlines()}
    assert [letters[name] for name in ("schedule", "__schedule", "jiffies", "slab_caches")] == [
        *("T", "t", "D", "d")
    ]
