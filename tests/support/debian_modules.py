"""Load every module of Debian's kernels, each with what it needs, and tell how many load.

    python -m tests.support.debian_modules docs/kernels.md [ARCH…]

The kernels are those of `DYNFTRACE_KERNELS` (see `debian.py`). It takes about five minutes
for each, so it is no test. The rows of the given architectures are refreshed, the others stay.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections import Counter
from pathlib import Path

from .debian import unpacked

BEGIN, END = "<!-- modules -->", "<!-- end of modules -->"
HEAD = """\
| package | modules | load | their call sites | why the others do not |
|---|---|---|---|---|"""
PORTS = {"amd64": "x86_64", "arm64": "arm64", "i386": "i386", "mipsel": "mipsel"}


def load_all(arch: str) -> str:
    """Return the row of one kernel: each of its modules is loaded into a machine of its own."""
    from dynftrace import arches
    from dynftrace.core.errors import DynftraceError
    from dynftrace.core.modules.tree import ModuleTree
    from dynftrace.core.session.session import MachineSpec, Session

    (kernel,) = unpacked(arch).glob("boot/vmlinu[xz]-*")
    session = Session.open(arches.load(PORTS[arch]), MachineSpec(kernel=kernel, cpus=1))
    tree = ModuleTree.beside(kernel)
    assert tree is not None
    restore = session.save()
    failed: Counter[str] = Counter()
    tried = sites = 0
    for path in tree:
        tried += 1
        try:
            name = session.modprobe(path.name.partition(".")[0])[-1].name
            if session.boot.ftrace.bug is not None:
                raise session.boot.ftrace.bug
            # A call shows that the machine still works; and Unicorn frees removed hooks only when
            # it runs, else each module takes longer than the one before.
            assert session.call("int_sqrt", [144]) == 12
            sites += session.boot.ftrace.records.module_names().count(name)
        except DynftraceError as error:
            failed[str(error).split(":", 1)[-1].strip()] += 1
            print(path.name, error, flush=True)
        restore()
        if tried % 200 == 0:
            print(arch, tried, f"{failed.total()} failed", flush=True)
    whys = "; ".join(f"{count}: {why}" for why, count in failed.most_common())
    loaded = tried - failed.total()
    share = f"{loaded:,} ({loaded / tried:.1%})"
    return f"| linux-image, {arch} | {tried:,} | {share} | {sites:,} | {whys or '-'} |"


def main() -> int:
    """Refresh the rows of a page."""
    page, archs = Path(sys.argv[1]), sys.argv[2:] or list(PORTS)
    for arch in archs:
        # Emulators slow down as hooks come and go, so each kernel has a process of its own.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            row = pool.apply(load_all, (arch,))
        text = page.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        table, after = rest.split(END)
        rows = [each for each in table.strip().split("\n")[2:] if f", {arch} |" not in each]
        lines = [BEGIN, "", HEAD, *sorted([*rows, row]), "", END]
        page.write_text(before + "\n".join(lines) + after, encoding="utf-8")
        print(row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
