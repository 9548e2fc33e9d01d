"""The ports side by side: as text for a terminal, and as the table the README shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .callsite import Code
from .support import CALLER, Support

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
            codes.append(("far away" if port.stub.far else "in a module", port.stub.enabled))
        width = max(3 * len(code.data) - 1 for _, code in codes)
        lines += [f"  {name:<12} {code.data.hex(' '):<{width}}  {code.asm}" for name, code in codes]
        lines.append(f"  {'call sites':<12} {_place(port)}")
        lines.append(f"  {'a call':<12} reaches {_reach(port)}")
        if port.long is not None:
            lines += [
                f"  {'modules':<12} have calls of {len(port.long.compiled.data)} bytes, "
                "which reach everything:",
                *(f"  {'':<12}   {text}" for text in port.long.compiled.asm.split("; ")),
                f"  {'':<12} disabled  {_code(port.long.disabled)}",
                f"  {'':<12} enabled   {_code(port.long.enabled)}",
            ]
        elif port.stub is None:
            lines.append(f"  {'modules':<12} reach all without stubs")
        else:
            far = "that are far away " if port.stub.far else ""
            lines.append(f"  {'modules':<12} {far}go through stubs of {port.stub.size} bytes:")
            lines += [f"  {'':<12}   {text}" for text in port.stub.code]
        if port.trampolines:
            sizes = " or ".join(map(str, port.trampolines))
            lines.append(f"  {'users':<12} have trampolines of {sizes} bytes, if there are several")
        lines.append(f"  {'patching':<12} {', '.join(port.patch_methods)}")
    return lines


def compare_lines(function: str, ports: Mapping[str, Support | None]) -> list[str]:
    """The call site of `function` on each port, by name; None where its kernel has none."""
    lines: list[str] = []
    for name, port in ports.items():
        if lines:
            lines.append("")
        if port is None:
            lines.append(f"{name}  has no call site in {function}")
            continue
        lines.append(f"{name}  {function} at {port.site:x}, {_machine(port)}")
        codes = {"compiled": port.compiled, "disabled": port.disabled, "enabled": port.enabled}
        width = max(3 * len(code.data) - 1 for code in codes.values())
        for label, code in codes.items():
            lines.append(f"  {label:<9} {code.data.hex(' '):<{width}}  {code.asm}")
        lines.append(f"  its way   site -> {CALLER} -> ftrace_call -> tracer")
        if port.stub is not None:
            where = "far away" if port.stub.far else "in a module"
            stub = f"stub of {port.stub.size} bytes"
            lines.append(f"            {where}: site -> {stub} -> {CALLER} -> …")
    return lines


def support_table(ports: Sequence[Support]) -> str:
    """Two Markdown tables, a row for each port: the kernel's sites, and calls of modules."""
    kernel: tuple[tuple[str, Callable[[Support], str]], ...] = (
        ("", lambda port: f"`{port.name}`"),
        ("machine", _machine),
        ("call site as compiled", lambda port: f"`{port.compiled.asm}`"),
        ("where it is", _place),
        ("disabled", lambda port: f"`{port.disabled.asm}`"),
        ("enabled", lambda port: f"`{port.enabled.asm}`"),
        ("patching", lambda port: ", ".join(f"`{method}`" for method in port.patch_methods)),
    )
    modules: tuple[tuple[str, Callable[[Support], str]], ...] = (
        ("", lambda port: f"`{port.name}`"),
        ("a call reaches", _reach),
        ("calls of modules", _modules),
        ("enabled in a module", _in_module),
    )
    return f"{_table(kernel, ports)}\n{_table(modules, ports)}"


def _table(
    columns: Sequence[tuple[str, Callable[[Support], str]]], ports: Sequence[Support]
) -> str:
    rows = [[name for name, _ in columns], ["---"] * len(columns)]
    rows += [[cell(port) for _, cell in columns] for port in ports]
    return "".join(f"| {' | '.join(row)} |\n".replace("|  |", "| |") for row in rows)


def _machine(port: Support) -> str:
    return f"{port.bits}-bit, {port.byteorder}-endian"


def _place(port: Support) -> str:
    least, most = port.offsets
    found = "" if port.listed else ", found as the kernel runs"
    if most == 0:
        return f"first in the function{found}"
    far = f"{least}" if least == most else f"{least} to {most}"
    return f"{far} bytes into the function{found}"


def _code(code: Code) -> str:
    return f"{code.data.hex(' ')}  {code.asm}"


def _modules(port: Support) -> str:
    if port.long is not None:
        return f"`{port.long.compiled.asm}`"
    if port.stub is None:
        return "reach all without stubs"
    names = ", ".join(f"`{text.split()[0]}`" for text in port.stub.code)
    far = "far away " if port.stub.far else ""
    return f"{far}through stubs of {port.stub.size} bytes: {names}"


def _in_module(port: Support) -> str:
    if port.long is not None:
        return f"`{port.long.enabled.asm}`, disabled `{port.long.disabled.asm}`"
    if port.stub is None:
        return "as in the kernel"
    return f"{'far away ' if port.stub.far else ''}`{port.stub.enabled.asm}`"


def _reach(port: Support) -> str:
    if port.reach is None:
        return "everywhere"
    back, ahead = (_size(distance) for distance in port.reach)
    if not port.reach[0]:
        return f"the {ahead} it is in"
    return f"+-{back}" if back == ahead else f"-{back} to +{ahead}"


def _size(distance: int) -> str:
    """Bytes in the largest unit there is one of, or nearly: a few bytes do not count."""
    unit, shift = next((each for each in _UNITS if distance >= 0.99 * (1 << each[1])), _UNITS[-1])
    return f"{distance / (1 << shift):.3g} {unit}"
