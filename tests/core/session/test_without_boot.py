"""Calls that cannot work without a boot: the message says what was missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynftrace.core.session import without_boot
from dynftrace.core.shell.shell import Shell

from ...support import compiling

SOURCE = (
    compiling.EXAMPLE
    + r"""
struct cache { long unused[3]; long size; };
struct cache *kmalloc_cache;
volatile int ready;
static int counter;
long size_of_cache(void) { return kmalloc_cache->size; }
int wait_for_it(void) { counter++; while (!ready) ; return counter; }
long given(struct cache *cache) { return cache->size; }
void bug(void) { __builtin_trap(); }
int value(void) { return counter; }
"""
)
PORTS = {"x86_64": (), "arm64": ("-fpatchable-function-entry=2",), "ppc32": (), "mips": ()}


@pytest.mark.parametrize("arch", PORTS)
def test_the_reason_comes_first(arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(without_boot, "LIMIT_NS", 5_000_000)
    session = compiling.opened(arch, tmp_path, *PORTS[arch], source=SOURCE)
    execute = Shell(session).execute
    said = execute("call size_of_cache").error
    assert "size_of_cache+" in said and "the pointer in kmalloc_cache, which is still NULL" in said
    assert session.boot.machine.now < 1_000_000
    said = execute("call wait_for_it").error
    assert "wait_for_it+" in said and "waits for ready to change" in said, said
    assert execute("call value").output == "value = 0x1 (1)\n", "the call ran once"
    said = execute("call given 0").error
    assert "uses a NULL pointer, which it was given" in said
    said = execute("call bug").error
    assert "bug+" in said and "cannot run here" in said
    assert execute("call value").output == "value = 0x1 (1)\n"
    assert session.boot.tracefs.read("trace").count("#") > 3
