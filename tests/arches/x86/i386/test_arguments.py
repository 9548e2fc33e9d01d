"""Which functions have all their arguments on the stack: the compiler's code for each kind."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from dynftrace import arches
from dynftrace.arches.x86.i386.arguments import all_on_stack
from dynftrace.core.elf.image import Image

SOURCE = """
typedef __builtin_va_list va_list;
int sink(const char *text, va_list more);
int other(int a, int b, int c, int d);
int variadic(const char *text, ...) {
    va_list more;
    __builtin_va_start(more, text);
    return sink(text, more);
}
int late(int *where, const char *text, ...) {
    va_list more;
    if (!*where)
        return 0;
    __builtin_va_start(more, text);
    return sink(text, more);
}
__attribute__((regparm(0))) int asmlinkage_two(int a, int b) { return a + b; }
__attribute__((regparm(0))) int asmlinkage_five(int a, int b, int c, int d, int e) {
    return a + b * c - d * e;
}
int one(int a) { return a + 1; }
int five(int a, int b, int c, int d, int e) { return a + b * c - d * e; }
int passes_on(int a, int b, int c, int d) { return other(a, b, c, d) + 1; }
int unused(int a, int b, int c, int d) { return d; }
"""

FLAGS = (
    *("-m32", "-mregparm=3", "-ffreestanding", "-fno-pic", "-fcf-protection=none"),
    *("-pg", "-mfentry", "-c"),
)

ON_STACK = {"variadic": 3, "late": 4, "asmlinkage_two": 2, "asmlinkage_five": 5}
IN_REGISTERS = {"one": 1, "five": 5, "passes_on": 4, "unused": 4}


@pytest.fixture(scope="module", params=["-O2", "-Os"])
def image(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Image:
    compiler = shutil.which("i686-linux-gnu-gcc")
    if compiler is None:
        pytest.skip("i686-linux-gnu-gcc is not installed")
    folder: Path = tmp_path_factory.mktemp("i386")
    (folder / "a.c").write_text(SOURCE, encoding="utf-8")
    subprocess.run([compiler, request.param, *FLAGS, "a.c", "-o", "a.o"], cwd=folder, check=True)
    return Image.load(folder / "a.o", arches.load("i386").facts)


@pytest.mark.parametrize(("name", "count"), (ON_STACK | IN_REGISTERS).items())
def test_the_code_shows_where_arguments_are(image: Image, name: str, count: int) -> None:
    row = image.symbols.row_of(name)
    assert row is not None
    text = image.section(".text")
    assert text is not None
    start = int(image.symbols.address[row])
    code = image.data(text)[start : start + int(image.symbols.size[row])].tobytes()
    assert all_on_stack(start, code, count) == (name in ON_STACK)
