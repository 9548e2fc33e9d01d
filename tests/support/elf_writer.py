"""Write small and large ELF files without a compiler, for tests and benchmarks.

Shares no code with the reader under test: the structures are defined here again.
All data is in columns, so that 130,000 symbols take milliseconds.

    text = Section(".text", PROGBITS, ALLOC | EXEC, code, address=0xffffffff81000000)
    write_elf(path, EXEC_FILE, [text], symbols)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

REL_FILE, EXEC_FILE = 1, 2
PROGBITS, SYMTAB, STRTAB, RELA, NOBITS = 1, 2, 3, 4, 8
WRITE, ALLOC, EXEC, INFO_LINK = 1, 2, 4, 0x40
LOCAL, GLOBAL = 0, 1
NOTYPE, OBJECT, FUNC = 0, 1, 2
R_64, R_PC32, R_PLT32, R_32, R_32S, R_PC64 = 1, 2, 4, 10, 11, 24

SYMBOL = np.dtype(
    [
        *(("name", "<u4"), ("info", "u1"), ("other", "u1"), ("shndx", "<u2")),
        *(("value", "<u8"), ("size", "<u8")),
    ]
)
RELOCATION = np.dtype([("offset", "<u8"), ("info", "<u8"), ("addend", "<i8")])
HEADER = np.dtype(
    [
        *(("ident", "S16"), ("type", "<u2"), ("machine", "<u2"), ("version", "<u4")),
        *(("entry", "<u8"), ("phoff", "<u8"), ("shoff", "<u8"), ("flags", "<u4")),
        *(("ehsize", "<u2"), ("phentsize", "<u2"), ("phnum", "<u2")),
        *(("shentsize", "<u2"), ("shnum", "<u2"), ("shstrndx", "<u2")),
    ]
)
SECTION = np.dtype(
    [
        *(("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("addr", "<u8")),
        *(("offset", "<u8"), ("size", "<u8"), ("link", "<u4"), ("info", "<u4")),
        *(("align", "<u8"), ("entsize", "<u8")),
    ]
)
SEGMENT = np.dtype(
    [
        *(("type", "<u4"), ("flags", "<u4"), ("offset", "<u8"), ("vaddr", "<u8")),
        *(("paddr", "<u8"), ("filesz", "<u8"), ("memsz", "<u8"), ("align", "<u8")),
    ]
)


@dataclass
class Section:
    """A section; in an executable each loaded section has its own segment."""

    name: str
    type: int
    flags: int
    data: bytes = b""
    address: int = 0
    align: int = 16
    size: int | None = None
    """Size in bytes of a NOBITS section."""
    link: int = 0
    info: int = 0
    entsize: int = 0


@dataclass
class Symbols:
    """Symbols in columns, locals first; `section` counts from 1, and 0 means undefined."""

    names: list[str] = field(default_factory=list)
    value: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    section: list[int] = field(default_factory=list)
    kind: list[int] = field(default_factory=list)
    binding: list[int] = field(default_factory=list)

    def add(
        self,
        name: str,
        value: int = 0,
        section: int = 0,
        kind: int = NOTYPE,
        binding: int = GLOBAL,
        size: int = 0,
    ) -> int:
        """Append a symbol and return its index in the file's table."""
        self.names.append(name)
        self.value.append(value)
        self.size.append(size)
        self.section.append(section)
        self.kind.append(kind)
        self.binding.append(binding)
        return len(self.names)


def relocations(rows: list[tuple[int, int, int, int]]) -> bytes:
    """Pack rows of (offset, type, symbol index, addend)."""
    table = np.zeros(len(rows), RELOCATION)
    for row, (offset, kind, symbol, addend) in enumerate(rows):
        table[row] = (offset, symbol << 32 | kind, addend)
    return table.tobytes()


def rela(name: str, target: int, data: bytes, symtab: int) -> Section:
    """Return the relocation section of section `target`."""
    return Section(
        f".rela{name}", RELA, INFO_LINK, data, align=8, link=symtab, info=target, entsize=24
    )


def symbol_tables(symbols: Symbols, strtab: int) -> tuple[Section, Section]:
    """Return .symtab and .strtab; .strtab is section number `strtab`."""
    count = len(symbols.names)
    encoded = [name.encode() for name in symbols.names]
    lengths = np.fromiter((len(name) + 1 for name in encoded), np.int64, count)
    table = np.zeros(count + 1, SYMBOL)
    table["name"][1:] = 1 + np.cumsum(lengths) - lengths
    table["value"][1:] = np.array(symbols.value, np.uint64)
    table["size"][1:] = symbols.size
    table["shndx"][1:] = symbols.section
    table["info"][1:] = np.array(symbols.binding) * 16 + np.array(symbols.kind)
    strings = b"\0" + b"".join(name + b"\0" for name in encoded)
    locals_ = 1 + sum(binding == LOCAL for binding in symbols.binding)
    return (
        Section(
            ".symtab", SYMTAB, 0, table.tobytes(), align=8, link=strtab, info=locals_, entsize=24
        ),
        Section(".strtab", STRTAB, 0, strings, align=1),
    )


def elf(kind: int, sections: list[Section], symbols: Symbols, entry: int = 0) -> bytes:
    """Return a whole x86-64 file; its symbol table is section len(sections) + 1."""
    symtab, strtab = symbol_tables(symbols, len(sections) + 2)
    names = Section(".shstrtab", STRTAB, 0, align=1)
    every = [*sections, symtab, strtab, names]
    at = [1]
    for section in every:
        at.append(at[-1] + len(section.name) + 1)
    names.data = b"\0" + b"".join(section.name.encode() + b"\0" for section in every)
    loaded = [s for s in sections if kind == EXEC_FILE and s.flags & ALLOC]
    headers = np.zeros(len(every) + 1, SECTION)
    segments = np.zeros(len(loaded), SEGMENT)
    parts = [b""]
    end = HEADER.itemsize + segments.nbytes
    for row, section in enumerate(every, 1):
        pad = -end % (4096 if section in loaded else 16)
        offset = end + pad
        size = len(section.data) if section.size is None else section.size
        headers[row] = (
            *(at[row - 1], section.type, section.flags, section.address, offset, size),
            *(section.link, section.info, section.align, section.entsize),
        )
        if section in loaded:
            flags = 4 | (2 if section.flags & WRITE else 0) | (1 if section.flags & EXEC else 0)
            stored = len(section.data)
            place = section.address
            segments[loaded.index(section)] = (1, flags, offset, place, place, stored, size, 4096)
        parts += [bytes(pad), section.data]
        end = offset + len(section.data)
    header = np.zeros(1, HEADER)
    header["ident"] = b"\x7fELF\x02\x01\x01"
    header["type"], header["machine"], header["version"], header["entry"] = kind, 62, 1, entry
    header["phoff"] = HEADER.itemsize if len(segments) else 0
    header["shoff"] = end
    header["ehsize"], header["phentsize"], header["shentsize"] = (
        HEADER.itemsize,
        SEGMENT.itemsize,
        SECTION.itemsize,
    )
    header["phnum"], header["shnum"], header["shstrndx"] = len(segments), len(headers), len(every)
    return b"".join([header.tobytes(), segments.tobytes(), *parts, headers.tobytes()])


TEXT = 0xFFFF_FFFF_8100_0000
FUNCTION_SIZE = 16


def call(ip: NDArray[np.uint64], target: int) -> NDArray[np.uint8]:
    """Encode `call target` at each ip, shape (n, 5)."""
    code = np.empty((len(ip), 5), np.uint8)
    code[:, 0] = 0xE8
    distance = (np.uint64(target) - ip - np.uint64(5)).astype(np.uint32).astype("<u4")
    code[:, 1:] = distance.view(np.uint8).reshape(-1, 4)
    return code


def kernel(functions: list[str] | int, symbols: int = 0, entry: str | None = None) -> bytes:
    """Return a kernel whose functions return their argument + 1 and have an `__fentry__` site.

    `functions` are their names or their number; `symbols` is the number of extra data
    symbols. Text begins with `__fentry__`, a plain return. `__mcount_loc` is in
    .init.data between the usual two symbols.
    """
    if isinstance(functions, int):
        functions = [f"function_{number}" for number in range(functions)]
    count = len(functions)
    code = np.full((count + 1, FUNCTION_SIZE), 0xCC, np.uint8)
    code[0, 0] = 0xC3  # __fentry__: ret
    ip = TEXT + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(FUNCTION_SIZE)
    code[1:, :5] = call(ip, TEXT)
    code[1:, 5:9] = np.frombuffer(bytes.fromhex("48 8d 47 01"), np.uint8)  # lea rax, [rdi + 1]
    code[1:, 9] = 0xC3  # ret
    init = (TEXT + code.size + 4095) // 4096 * 4096
    data = (init + 8 * count + 4095) // 4096 * 4096
    table = Symbols()
    table.add("__fentry__", TEXT, 1, FUNC)
    table.names += functions
    table.value += ip.tolist()
    table.size += [10] * count
    table.section += [1] * count
    table.kind += [FUNC] * count
    table.binding += [GLOBAL] * count
    table.add("__start_mcount_loc", init, 2)
    table.add("__stop_mcount_loc", init + 8 * count, 2)
    table.names += [f"variable_{number}" for number in range(symbols)]
    table.value += [data + 8 * number for number in range(symbols)]
    table.size += [8] * symbols
    table.section += [3] * symbols
    table.kind += [OBJECT] * symbols
    table.binding += [GLOBAL] * symbols
    sections = [
        Section(".text", PROGBITS, ALLOC | EXEC, code.tobytes(), TEXT),
        Section(".init.data", PROGBITS, ALLOC | WRITE, ip.astype("<u8").tobytes(), init),
        Section(".bss", NOBITS, ALLOC | WRITE, b"", data, size=max(8 * symbols, 4096)),
    ]
    start = 0 if entry is None else table.value[table.names.index(entry)]
    return elf(EXEC_FILE, sections, table, start)


def module(
    functions: list[str],
    calls: dict[str, str] | None = None,
    info: dict[str, str] | None = None,
    exports: list[str] | None = None,
    data: bytes = b"",
    returns: dict[str, int] | None = None,
    ends: tuple[str, str] | None = None,
) -> bytes:
    """Return a module whose functions have `__fentry__` sites, call another and add 1.

    `calls` maps a function to the one it calls (in this module or not), `returns` to its
    result; the others only add 1 to their argument. `.modinfo` is `info`. `exports` go to
    `__ksymtab`. `ends` names init and exit for `struct module`.
    """
    calls, returns = calls or {}, returns or {}
    table = Symbols()
    fentry = table.add("__fentry__")
    size = 32
    own = {name: table.add(name, size * row, 1, FUNC) for row, name in enumerate(functions)}
    index = dict(own)
    for name in calls.values():
        if name not in index:
            index[name] = table.add(name)
    code = np.full((len(functions), size), 0xCC, np.uint8)
    text, sites = [], []
    for row, name in enumerate(functions):
        at = size * row
        body = bytes.fromhex("e8 00000000")
        text.append((at + 1, R_PLT32, fentry, -4))
        sites.append((8 * row, R_64, own[name], 0))
        if name in calls:
            body += bytes.fromhex("50 e8 00000000 59 48ff c0 c3")  # push; call; pop; inc; ret
            text.append((at + 7, R_PLT32, index[calls[name]], -4))
        elif name in returns:
            body += (
                b"\xb8" + (returns[name] % 2**32).to_bytes(4, "little") + b"\xc3"
            )  # mov eax; ret
        else:
            body += bytes.fromhex("48 8d 47 01 c3")  # lea rax, [rdi + 1]; ret
        code[row, : len(body)] = np.frombuffer(body, np.uint8)
    words = b"".join(f"{tag}={value}".encode() + b"\0" for tag, value in (info or {}).items())
    strings = b"".join(name.encode() + b"\0" for name in exports or [])
    ksymtab, offset = [], 0
    string_symbol = table.add("__ksymtab_strings_start", 0, 5, OBJECT)
    for row, name in enumerate(exports or []):
        ksymtab += [(16 * row, R_64, own[name], 0), (16 * row + 8, R_64, string_symbol, offset)]
        offset += len(name) + 1
    symtab = 12
    this = [(64 + 8 * row, R_64, own[name], 0) for row, name in enumerate(ends or [])]
    sections = [
        Section(".text", PROGBITS, ALLOC | EXEC, code.tobytes()),
        Section("__mcount_loc", PROGBITS, ALLOC, bytes(8 * len(functions)), align=8),
        Section(".modinfo", PROGBITS, ALLOC, words, align=1),
        Section("__ksymtab", PROGBITS, ALLOC, bytes(8 * len(ksymtab)), align=8),
        Section("__ksymtab_strings", PROGBITS, ALLOC, strings or b"\0", align=1),
        Section(".data", PROGBITS, ALLOC | WRITE, data),
        Section(
            ".gnu.linkonce.this_module" if ends else ".unused",
            *(PROGBITS, ALLOC | WRITE if ends else 0, bytes(80)),
        ),
        rela(".text", 1, relocations(text), symtab),
        rela("__mcount_loc", 2, relocations(sites), symtab),
        rela("__ksymtab", 4, relocations(ksymtab), symtab),
        rela(".gnu.linkonce.this_module", 7, relocations(this), symtab),
    ]
    return elf(REL_FILE, sections, table)


def write(path: Path, content: bytes) -> Path:
    """Write a file and return its path."""
    path.write_bytes(content)
    return path
