"""Writes files trace.dat of any shape, from the manual pages of trace-cmd alone."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

COMMON = (
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
    "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
    "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
)


def event_format(
    name: str, number: int, fields: Sequence[tuple[str, int, int, int]], fmt: str
) -> str:
    """Return a file `format`; `fields` are (declaration, offset, size, signed)."""
    rows = "".join(
        f"\tfield:{what};\toffset:{at};\tsize:{size};\tsigned:{sign};\n"
        for what, at, size, sign in fields
    )
    return f"name: {name}\nID: {number}\nformat:\n{COMMON}{rows}\nprint fmt: {fmt}\n"


@dataclass
class Page:
    """A page with records; `lost` counts events lost before it."""

    stamp: int
    records: Sequence[tuple[int, bytes]]
    """(time since the record before, payload)."""
    lost: int = 0


@dataclass
class Written:
    """The content of a file."""

    order: str = "<"
    long: int = 8
    page_size: int = 4096
    formats: Sequence[tuple[str, str]] = ()
    """(system, format)."""
    cpus: Sequence[Sequence[Page]] = ((),)
    kallsyms: str = ""
    printk: str = ""
    cmdlines: str = "7 worker\n"
    options: Sequence[tuple[int, bytes]] = field(default_factory=list)

    def number(self, value: int, size: int) -> bytes:
        """Return a number in the byte order of the file."""
        return struct.pack(f"{self.order}{' BH I   Q'[size]}", value)

    def payload(self, kind: int, rest: bytes, pid: int = 7, flags: int = 0) -> bytes:
        """Return a record, its length a multiple of 4."""
        data = struct.pack(f"{self.order}HBBi", kind, flags, 0, pid) + rest
        return data + bytes(-len(data) % 4)

    def page(self, page: Page) -> bytes:
        """Return the bytes of a page."""
        data = b""
        for delta, payload in page.records:
            words = len(payload) // 4
            kind = words if words <= 28 else 0
            head = delta << 5 | kind if self.order == "<" else kind << 27 | delta
            data += self.number(head, 4)
            data += payload if kind else self.number(len(payload) + 4, 4) + payload
        commit = len(data) | (1 << 31 | 1 << 30 if page.lost else 0)
        whole = self.number(page.stamp, 8) + self.number(commit, self.long) + data
        whole += self.number(page.lost, self.long) if page.lost else b""
        return whole.ljust(self.page_size, b"\0")

    def _sections(self) -> dict[int, bytes]:
        """Return the content of the sections by the number that version 7 gives them."""
        room = self.page_size - 8 - self.long
        header = (
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
            f"\tfield: local_t commit;\toffset:8;\tsize:{self.long};\tsigned:1;\n"
            f"\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
            f"\tfield: char data;\toffset:{8 + self.long};\tsize:{room};\tsigned:1;\n"
        ).encode()
        own = [text for system, text in self.formats if system == "ftrace"]
        systems: dict[str, list[str]] = {}
        for system, text in self.formats:
            if system != "ftrace":
                systems.setdefault(system, []).append(text)

        def sized(text: str, size: int) -> bytes:
            return self.number(len(text.encode()), size) + text.encode()

        other = self.number(len(systems), 4)
        for system, texts in systems.items():
            other += system.encode() + b"\0" + self.number(len(texts), 4)
            other += b"".join(sized(text, 8) for text in texts)
        event = (
            "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n"
            "\tarray       :   32 bits\n\n\tpadding     : type == 29\n"
            "\ttime_extend : type == 30\n\ttime_stamp : type == 31\n"
            "\tdata max type_len  == 28\n"
        )
        return {
            16: b"header_page\0"
            + self.number(len(header), 8)
            + header
            + b"header_event\0"
            + sized(event, 8),
            17: self.number(len(own), 4) + b"".join(sized(text, 8) for text in own),
            18: other,
            19: sized(self.kallsyms, 4),
            20: sized(self.printk, 4),
            21: sized(self.cmdlines, 8),
        }

    def _begin(self, version: str) -> bytes:
        order = bytes([int(self.order == ">"), self.long])
        return (
            b"\x17\x08\x44tracing"
            + version.encode()
            + b"\0"
            + order
            + self.number(self.page_size, 4)
        )

    def version_6(self) -> bytes:
        """Return the file in version 6."""
        head = self._begin("6") + b"".join(self._sections().values())
        head += self.number(len(self.cpus), 4) + b"options  \0"
        for kind, data in self.options:
            head += self.number(kind, 2) + self.number(len(data), 4) + data
        head += self.number(0, 2) + b"flyrecord\0"
        at = -(-(len(head) + 16 * len(self.cpus)) // self.page_size) * self.page_size
        places, data = b"", b""
        for pages in self.cpus:
            own = b"".join(map(self.page, pages))
            places += self.number(at + len(data), 8) + self.number(len(own), 8)
            data += own
        return (head + places).ljust(at, b"\0") + data

    def version_7(self, name: str = "none", pack: Callable[[bytes], bytes] | None = None) -> bytes:
        """Return the file in version 7, with sections and pages compressed by `pack`."""
        whole = self._begin("7") + name.encode() + b"\0" + b"1\0"
        at = len(whole) + 8
        body, options = b"", b""
        flag = self.number(int(pack is not None), 2)

        def section(number: int, content: bytes) -> bytes:
            if pack is not None:
                packed = pack(content)
                content = self.number(len(packed), 4) + self.number(len(content), 4) + packed
            head = self.number(number, 2) + flag + self.number(0, 4)
            return head + self.number(len(content), 8) + content

        def option(number: int, data: bytes) -> bytes:
            return self.number(number, 2) + self.number(len(data), 4) + data

        for number, content in self._sections().items():
            options += option(number, self.number(at + len(body), 8))
            body += section(number, content)
        for number, data in self.options:
            options += option(number, data)
        begin = at + len(body)
        head = self.number(3, 2) + flag + self.number(0, 4)
        places, data = b"", b""
        start = -(-(begin + 16) // self.page_size) * self.page_size
        for cpu, pages in enumerate(self.cpus):
            own = b"".join(map(self.page, pages))
            if pack is not None and own:
                chunk = pack(own)
                own = (
                    self.number(1, 4)
                    + self.number(len(chunk), 4)
                    + self.number(len(own), 4)
                    + chunk
                )
            here = start + len(data)
            places += self.number(cpu, 4) + self.number(here, 8) + self.number(len(own), 8)
            data += own + bytes(-len(own) % self.page_size)
        body += (head + self.number(start - begin - 16 + len(data), 8)).ljust(start - begin, b"\0")
        body += data
        buffer = self.number(begin, 8) + b"\0" + b"local\0" + self.number(self.page_size, 4)
        options += option(3, buffer + self.number(len(self.cpus), 4) + places)
        options += option(0, self.number(0, 8))
        head = self.number(0, 2) + flag * 0 + self.number(0, 2) + self.number(0, 4)
        offset = at + len(body)
        return whole + self.number(offset, 8) + body + head + self.number(len(options), 8) + options


def zlibbed(data: bytes) -> bytes:
    """Compress as trace-cmd does with zlib."""
    return zlib.compress(data)
