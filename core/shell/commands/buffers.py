"""Guest memory for calls: mem."""

from __future__ import annotations

import re

from ...errors import UsageError
from ..command import Arguments, Changes, Command, Context, UsageMistake, expect, number
from .memory import hex_bytes

MOST_BYTES = 1024
"""Maximum bytes of a buffer that `mem show` prints."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
_ROW = 16
_ESCAPE = re.compile(rb"\\(?:(x[0-9a-fA-F]{1,2}|[0-7]{1,3})|(.))", re.DOTALL)
_CONTROL = {b"n": b"\n", b"t": b"\t", b"r": b"\r"}


def mem(context: Context, arguments: Arguments) -> None:
    """List buffers, or make, fill, show or free one."""
    if not arguments:
        for name in context.boot.buffers.names:
            address, size = context.boot.buffers.find(name)
            context.line(f"@{name:<12} {address:x}  {size} bytes  {shown(context, name)}")
        return
    action = _ACTIONS.get(arguments[0].text)
    if action is None:
        raise UsageMistake(f"unknown action '{arguments[0].text}' (choose from: {_KNOWN})")
    action(context, arguments[1:])


def shown(context: Context, name: str) -> str:
    """Return the text in a buffer in quotes, or its first bytes in hex if it holds no text."""
    address, size = context.boot.buffers.find(name)
    raw = context.boot.machine.memory.read(address, min(size, MOST_BYTES))
    text, nul, _ = raw.partition(b"\0")
    if nul and text and all(32 <= byte < 127 or byte in b"\t\n\r" for byte in text):
        quoted = text.decode("ascii").replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(_ESCAPES.get(each, each) for each in quoted) + '"'
    more = " …" if size > 2 * _ROW else ""
    return raw[: 2 * _ROW].hex(" ") + more


def c_string(text: str) -> bytes:
    """Return the bytes of a C string literal: `\\n`, `\\x41` and `\\101` are one byte each."""

    def one(match: re.Match[bytes]) -> bytes:
        digits, plain = match[1], match[2]
        if digits is None:
            return _CONTROL.get(plain, plain)
        return bytes([int(digits[1:], 16) if digits[:1] == b"x" else int(digits, 8) & 0xFF])

    return _ESCAPE.sub(one, text.encode("utf-8", "surrogateescape"))


def buffer_name(text: str) -> str:
    """Return the name of a buffer without its @. Raises `UsageMistake`."""
    name = text.removeprefix("@")
    if not _NAME.fullmatch(name):
        raise UsageMistake(f"invalid buffer name '{text}': use letters, digits and '_'")
    return name


def _alloc(context: Context, arguments: Arguments) -> None:
    expect(arguments, 2, 2)
    name, size = buffer_name(arguments[0].text), number(arguments[1].text, "SIZE", 1)
    context.line(f"@{name} = {context.boot.buffers.alloc(name, size):#x}")


def _free(context: Context, arguments: Arguments) -> None:
    expect(arguments, 1, 1)
    context.boot.buffers.free(buffer_name(arguments[0].text))


def _write(context: Context, arguments: Arguments) -> None:
    expect(arguments, 2)
    name, offset = buffer_name(arguments[0].text.partition("+")[0]), 0
    if "+" in arguments[0].text:
        offset = number(arguments[0].text.partition("+")[2], "OFF")
    address, size = context.boot.buffers.find(name)
    words = arguments[1:]
    if words[0].quoted:
        expect(words, 1, 1)
        data: bytes | None = c_string(words[0].text)
    else:
        data = hex_bytes([word.text for word in words])
    if data is None:
        raise UsageMistake("give bytes as pairs of hex digits, or text in quotes")
    if offset + len(data) > size:
        raise UsageError(
            f"{len(data)} bytes at +{offset} do not fit in the {size} bytes of @{name}"
        )
    context.boot.machine.memory.write(address + offset, data)


def _show(context: Context, arguments: Arguments) -> None:
    expect(arguments, 1, 1)
    address, size = context.boot.buffers.find(buffer_name(arguments[0].text))
    raw = context.boot.machine.memory.read(address, min(size, MOST_BYTES))
    for start in range(0, len(raw), _ROW):
        row = raw[start : start + _ROW]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        context.line(f"{start:04x}  {row.hex(' '):<{3 * _ROW - 1}}  |{text}|")


_ACTIONS = {"alloc": _alloc, "free": _free, "write": _write, "show": _show}
_KNOWN = ", ".join(_ACTIONS)
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}

COMMANDS = (
    Command(
        "mem",
        "[ACTION NAME [ARG…]]",
        "make and show buffers for calls",
        mem,
        details="mem alloc NAME SIZE; mem write NAME[+OFF] HEX|TEXT; mem show NAME; mem free NAME\n"
        "`@NAME` in `call` is the address of a buffer. HEX is pairs of digits; TEXT is in\n"
        "quotes, may have escapes such as \\n, and gets no NUL: a new buffer holds zeros.\n"
        f"`show` prints at most {MOST_BYTES} bytes.",
        changes=Changes.WITH_ARGUMENTS,
    ),
)
