"""Kernels that users build: far sites, and the return addresses that function_graph finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from ...support.compiling import graph, opened, trace


@pytest.mark.parametrize("arch", ["mips", "mips64"])
def test_a_kernel_with_long_calls_is_traced_through_mcount(tmp_path: Path, arch: str) -> None:
    session = opened(arch, tmp_path, "-mlong-calls")
    tree = session.boot.tracefs
    tree.write("current_tracer", "function")
    assert session.call("fibonacci", [2]) == 1
    assert [event.split()[0] for event in trace(session)] == [*3 * ["fibonacci"], "add"]
    tree.write("current_tracer", "function_graph")
    assert session.call("fibonacci", [2]) == 1
    assert graph(session) == [
        *("fibonacci() {", "  fibonacci();", "  fibonacci();", "  add();", "}"),
    ]
    tree.write("current_tracer", "nop")
    assert session.call("fibonacci", [9]) == 34


MCOUNT = """
__asm__(".section .text.zz; .set push; .set noreorder; .set noat; .globl _mcount\\n"
#ifdef __mips64
	"_mcount: jr $ra; move $ra,$1; .set pop; .text");
#else
	"_mcount: addiu $sp,$sp,8; jr $ra; move $ra,$1; .set pop; .text");
#endif
"""

KERNEL = (
    """
int first(int a) { return a + 1; }
__attribute__((aligned(4096))) int padded(int a) { return a + 2; }
void trap(void) { __builtin_trap(); }
int after(int a) { return a + 3; }
void sink(char *p, int n) { p[0] = padded(n); }
int allocates(int n) { char *p = __builtin_alloca(n); sink(p, n); return p[0]; }
int frame(int n) { char p[40000]; sink(p, n); return p[0]; }
int run(int n) { return first(n) + after(n) + allocates(n) + frame(n); }
"""
    + MCOUNT
)


@pytest.mark.parametrize(("arch", "clang"), [("mips", False), ("mips64", False), ("mips", True)])
def test_the_return_address_is_searched_for_in_the_function_only(
    tmp_path: Path, arch: str, clang: bool
) -> None:
    """The kernel begins with a leaf; others follow 4 KB of nops, and a function without end."""
    session = opened(arch, tmp_path, source=KERNEL, clang=clang)
    tree = session.boot.tracefs
    tree.write("current_tracer", "function_graph")
    assert session.call("run", [5]) == 6 + 8 + 7 + 7
    sunk = ["sink() {", "  padded();", "}"]
    # clang computes the size of a large frame in a register: such a function is not traced.
    large = sunk if clang else ["frame() {", *(f"  {row}" for row in sunk), "}"]
    inner = ["first();", "after();", "allocates() {", *(f"  {row}" for row in sunk), "}", *large]
    assert graph(session) == ["run() {", *(f"  {row}" for row in inner), "}"]
