"""The reader of kallsyms: layouts of several years, written by hand, and damage."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from dynftrace.core.elf.kallsyms_data import find_names, find_places

from ...support.kallsyms_writer import Layout, kallsyms

BASE = {8: 0xFFFF_8000_0801_0000, 4: 0xC010_0000}

LAYOUTS = [
    Layout(),
    Layout(seqs=False),
    Layout(late=True),
    Layout(percpu=True),
    Layout(pointer=4),
    Layout(pointer=4, order=">", seqs=False),
    Layout(order=">", late=True),
    Layout(seven=True),
    Layout(order=">", seven=True),
    Layout(pointer=4, seven=True),
    Layout(pointer=4, seven=True, fixed=True),
]


def symbols(layout: Layout, count: int) -> list[tuple[int, str, str]]:
    """Return symbols of a kernel, ascending; one name is longer than 127 tokens."""
    base = BASE[layout.pointer]
    found = [
        (base + 16 * number, "Tt"[number % 2], f"__function_{number}") for number in range(count)
    ]
    found[count // 2] = (found[count // 2][0], "t", "x" * 200)
    if layout.percpu:
        found = [(0, "A", "__per_cpu_start"), (64, "A", "current_task"), *found]
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("count", [300, 1024, 1025])
def test_all_symbols_are_read_back(layout: Layout, count: int) -> None:
    wanted = symbols(layout, count)
    noise = Random(count).randbytes(4096)
    base = BASE[layout.pointer]
    tables, base_at = kallsyms(wanted, base, layout, base + len(noise))
    data = noise + tables + noise
    order = "little" if layout.order == "<" else "big"
    names = find_names(data, order, layout.pointer)
    assert names is not None
    assert names.names == [name for _, _, name in wanted]
    assert bytes(names.kind).decode() == "".join(letter for _, letter, _ in wanted)
    places = find_places(np.frombuffer(data, np.uint8), names, order, layout.pointer)
    assert places is not None
    assert places.base_at == (None if layout.seven else len(noise) + base_at)
    addresses = places.addresses(base)
    assert addresses.tolist() == [address for address, _, _ in wanted]


def test_damaged_tables_are_refused_or_have_as_many_symbols() -> None:
    wanted = symbols(Layout(), 700)
    tables, _ = kallsyms(wanted, BASE[8], Layout())
    random = Random(1)
    for _ in range(100):
        raw = bytearray(bytes(64) + tables)
        for _ in range(random.randint(1, 8)):
            raw[random.randrange(len(raw))] = random.randrange(256)
        names = find_names(
            raw[: random.choice((len(raw), random.randrange(len(raw))))], "little", 8
        )
        assert names is None or len(names.names) == len(names.kind)
