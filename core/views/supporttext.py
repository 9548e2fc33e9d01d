"""The ports side by side: as text for a terminal, and as the table the README shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .support import Support

_UNITS = (("GB", 30), ("MB", 20), ("KB", 10), ("bytes", 0))


def support_lines(ports: Sequence[Support]) -> list[str]:
    """A block of lines for each port."""
    lines: list[str] = []
    for port in ports:
        if lines:
            lines.append("")
        lines.append(f"{port.name}  {_machine(port)}")
        codes = [("as compiled", port.compiled), ("disabled", port.disabled)]
        codes.append(("enabled", port.enabled))
        if port.stub is not None:
            codes.append(("in a module", port.stub.enabled))
        width = max(3 * len(code.data) - 1 for _, code in codes)
        lines += [f"  {name:<12} {code.data.hex(' '):<{width}}  {code.asm}" for name, code in codes]
        lines.append(f"  {'call sites':<12} {_place(port)}")
        lines.append(f"  {'a call':<12} reaches {_reach(port)}")
        if port.stub is None:
            lines.append(f"  {'modules':<12} reach all without stubs")
        else:
            lines.append(f"  {'modules':<12} go through stubs of {port.stub.size} bytes:")
            lines += [f"  {'':<12}   {text}" for text in port.stub.code]
        lines.append(f"  {'patching':<12} {', '.join(port.patch_methods)}")
    return lines


def support_table(ports: Sequence[Support]) -> str:
    """A Markdown table, a column for each port."""
    rows: tuple[tuple[str, Callable[[Support], str]], ...] = (
        ("", lambda port: f"`{port.name}`"),
        ("---", lambda port: "---"),
        ("machine", _machine),
        ("call site as compiled", lambda port: f"`{port.compiled.asm}`"),
        ("where it is", _place),
        ("disabled", lambda port: f"`{port.disabled.data.hex(' ')}` `{port.disabled.asm}`"),
        ("enabled", lambda port: f"`{port.enabled.asm}`"),
        ("a call reaches", _reach),
        ("calls of modules", _modules),
        ("enabled in a module", _in_module),
        ("patching", lambda port: ", ".join(f"`{method}`" for method in port.patch_methods)),
    )
    return "".join(_row(name, [cell(port) for port in ports]) for name, cell in rows)


def _row(name: str, cells: Sequence[str]) -> str:
    if name == "---":
        return "|" + "---|" * (len(cells) + 1) + "\n"
    return f"| {' | '.join([name, *cells])} |\n".replace("|  |", "| |")


def _machine(port: Support) -> str:
    return f"{port.bits}-bit, {port.byteorder}-endian"


def _place(port: Support) -> str:
    least, most = port.offsets
    if most == 0:
        return "first in the function"
    far = f"{least}" if least == most else f"{least} to {most}"
    return f"{far} bytes into the function"


def _modules(port: Support) -> str:
    if port.stub is None:
        return "reach all without stubs"
    names = ", ".join(f"`{text.split()[0]}`" for text in port.stub.code)
    return f"through stubs of {port.stub.size} bytes: {names}"


def _in_module(port: Support) -> str:
    return "as in the kernel" if port.stub is None else f"`{port.stub.enabled.asm}`"


def _reach(port: Support) -> str:
    if port.reach is None:
        return "everywhere"
    back, ahead = (_size(distance) for distance in port.reach)
    return f"+-{back}" if back == ahead else f"-{back} to +{ahead}"


def _size(distance: int) -> str:
    """Bytes in the largest unit there is one of, or nearly: a few bytes do not count."""
    unit, shift = next((each for each in _UNITS if distance >= 0.99 * (1 << each[1])), _UNITS[-1])
    return f"{distance / (1 << shift):.3g} {unit}"
