"""Kernels with nops before their functions, as -fpatchable-function-entry=N,M leaves them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynftrace.core.errors import FtraceBug
from dynftrace.core.ftrace.sites import own_bases
from dynftrace.core.views.listings import listing

from ...support.compiling import opened, trace


@pytest.mark.parametrize(
    ("flags", "offset"),
    [
        (("-fpatchable-function-entry=4,2",), 4),
        (("-fpatchable-function-entry=5,1",), 4),
        (("-fpatchable-function-entry=4,2", "-mbranch-protection=bti"), 8),
        (("-fpatchable-function-entry=2", "-mbranch-protection=bti"), 8),
    ],
)
def test_the_site_is_in_the_function_whose_nops_the_list_names(
    tmp_path: Path, flags: tuple[str, ...], offset: int
) -> None:
    session = opened("arm64", tmp_path, *flags)
    boot = session.boot
    assert sorted(boot.ftrace.records.names) == ["add", "collatz", "collatz_step", "fibonacci"]
    # A static function that is never called indirectly has no landing pad.
    # rec.ip is the second nop after that, which becomes the branch.
    ip = boot.ftrace.records.ip_of(boot.ftrace.records.names.index("fibonacci"))
    assert ip == boot.kallsyms.address("fibonacci") + offset
    boot.tracefs.write("current_tracer", "function")
    bases, memory = own_bases(boot.image), boot.machine.memory
    shown = listing(boot.port, boot.image, bases, memory, boot.ftrace.records)
    assert shown is not None and sorted(entry.row for entry in shown.entries) == [0, 1, 2, 3]
    assert session.call("fibonacci", [4]) == 3
    called = [event.split()[0] for event in trace(session)]
    # fibonacci(4) calls itself 8 times and adds 4 times.
    assert (called.count("fibonacci"), called.count("add"), len(called)) == (9, 4, 13)


def test_nops_only_before_the_function_are_no_site(tmp_path: Path) -> None:
    with pytest.raises(FtraceBug, match=r"add\+0x4/.*not what the compiler left"):
        opened("arm64", tmp_path, "-fpatchable-function-entry=2,2")
