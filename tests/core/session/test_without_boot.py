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
void *allocate(void) { return kmalloc_cache; }
int hardware(void) { counter = 7; HARDWARE; return counter; }
int interrupts(void) { MASK; return 3; }
unsigned long count(void) { unsigned long value; COUNT; return value; }
"""
)
PORTS = {"x86_64": (), "arm64": ("-fpatchable-function-entry=2",), "ppc32": (), "mips": ()}
HARDWARE = {
    "x86_64": ('asm volatile("outb %%al, $0x80"::)', 'asm volatile("cli; sti"::)'),
    "arm64": ('asm volatile("msr ttbr0_el1, x0"::)', 'asm volatile("msr daifset, #2"::)'),
    "ppc32": ('asm volatile("tlbie 3"::)', "(void)0"),
    "mips": ('asm volatile("mtc0 $3, $11"::)', 'asm volatile("mfc0 $3,$12; mtc0 $3,$12":::"$3")'),
}
"""What needs a device, a timer or page tables, and what only masks interrupts."""
COUNT = {
    "x86_64": 'asm volatile("rdtsc; shl $32,%%rdx; or %%rdx,%%rax" : "=a"(value) :: "rdx")',
    "arm64": 'asm volatile("mrs %0, cntvct_el0" : "=r"(value))',
    "ppc32": 'asm volatile("mftb %0" : "=r"(value))',
    "mips": 'asm volatile("mfc0 %0, $9" : "=r"(value)); value += counter',
}
RANDOM = 'asm volatile("rdrand %0" : "=r"(value))'


@pytest.mark.parametrize("arch", PORTS)
def test_a_counter_reads_virtual_time(arch: str, tmp_path: Path) -> None:
    source = SOURCE.replace("HARDWARE", "").replace("MASK", "").replace("COUNT", COUNT[arch])
    session = compiling.opened(arch, tmp_path, *PORTS[arch], source=source)
    restore = session.save()
    first = [session.call("count") for _ in range(4)]
    assert first == sorted(set(first)) and first[0] > 0 and first[-1] <= session.now
    restore()
    assert [session.call("count") for _ in range(4)] == first


def test_random_bits_are_the_same_each_time(tmp_path: Path) -> None:
    source = SOURCE.replace("HARDWARE", "").replace("MASK", "").replace("COUNT", RANDOM)
    session = compiling.opened("x86_64", tmp_path, source=source)
    restore = session.save()
    first = [session.call("count") for _ in range(4)]
    assert len(set(first)) == 4 and min(first) > 1 << 32
    restore()
    assert [session.call("count") for _ in range(4)] == first


@pytest.mark.parametrize("arch", PORTS)
def test_the_reason_comes_first(arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(without_boot, "LIMIT_NS", 5_000_000)
    needs, masks = HARDWARE[arch]
    source = SOURCE.replace("HARDWARE", needs).replace("MASK", masks).replace("COUNT", COUNT[arch])
    session = compiling.opened(arch, tmp_path, *PORTS[arch], source=source)
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
    result, remark = execute("call allocate").output.splitlines()
    assert result == "allocate = 0x0 (0)"
    assert remark.startswith("allocate+") and "has read 0 from kmalloc_cache" in remark
    for _ in range(2):
        done = execute("call hardware")
        assert done.status and "hardware+" in done.error and "needs hardware" in done.error
        assert execute("call value").output == "value = 0x7 (7)\n", "it ran up to there"
    assert execute("call interrupts").output == "interrupts = 0x3 (3)\n"
    assert session.boot.tracefs.read("trace").count("#") > 3
