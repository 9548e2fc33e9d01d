"""The stubs of a module, and the sites that use them."""

from __future__ import annotations

from dynftrace.core.shell.text.call_site import stub_lines
from dynftrace.core.views.path import PathReader
from dynftrace.core.views.stubs import StubView, module_stubs

from .siteworld import STUB, World


def stubs(world: World) -> tuple[StubView, ...]:
    paths = PathReader(world.ftrace, world.memory, world.disasm)
    return module_stubs(world.ftrace, paths, "usbcore", world.ftrace.records.stubs)


def test_each_stub_has_the_sites_that_use_it() -> None:
    world = World()
    world.load_module()
    mcount, caller = stubs(world)
    assert (mcount.hop.address, mcount.symbol) == (STUB, "__fentry__")
    assert (mcount.compiled, mcount.enabled) == (1, 0)
    assert (caller.hop.address, caller.symbol) == (STUB + 16, "ftrace_caller")
    assert (caller.compiled, caller.enabled) == (0, 1)
    assert all(each.hop.verified for each in (mcount, caller))


def test_stubs_are_shown_as_text() -> None:
    world = World()
    stub = world.load_module()[1]
    lines = stub_lines(stubs(world))
    assert lines[0] == f"{STUB:x}  __fentry__.stub  ok  leads to __fentry__"
    assert lines[1] == "     1 call site as compiled"
    code = stub.code[:5].hex(" ")
    assert lines[6:] == [
        f"{STUB + 16:x}  ftrace_caller.stub  ok  leads to ftrace_caller",
        "     1 call site when enabled",
        f"    +0x0  {code:<23}  jmp ftrace_caller",
        f"    +0x5  {'00':<23}  .byte 0x0",
        f"    +0x6  {'00 00':<23}  .short 0x0",
        f"    +0x8  {stub.code[8:].hex(' ')}  .quad ftrace_caller",
    ]
    world.memory.write(STUB + 16, b"\x90")
    changed = stub_lines(stubs(world))
    wrong = "+0x0 is 90, expected e9; leads nowhere"
    assert changed[6] == f"{STUB + 16:x}  ftrace_caller.stub  !   {wrong}"
    assert changed[8].startswith("  ! +0x0  90 ")
    assert changed[-1] == lines[-1]
    assert stub_lines(()) == []


def test_a_module_that_is_not_loaded_has_no_stubs() -> None:
    world = World()
    paths = PathReader(world.ftrace, world.memory, world.disasm)
    assert module_stubs(world.ftrace, paths, "gone", ()) == ()
