"""insmod and rmmod: refused modules, dependencies, and complete cleanup."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dynftrace.core.errors import (
    DynftraceError,
    FtraceBugType,
    ImageError,
    ModuleError,
    RelocationOverflow,
    UnknownRelocation,
    UnknownSymbol,
    UsageError,
    WrongMachineError,
)
from dynftrace.core.ftrace.records import Flag
from dynftrace.core.modules import module as module_loader

from ...support import elf_writer
from ...support.booted import Booted, boot, load

NOP = bytes.fromhex("0f1f440000")
SMALL = elf_writer.kernel(["schedule", "kmalloc"])


@pytest.fixture
def guest() -> Booted:
    return boot()


@pytest.fixture
def small(tmp_path: Path) -> Booted:
    """A user's kernel without a list of exports."""
    return load(elf_writer.write(tmp_path / "kernel", SMALL))


def built(guest: Booted, name: str) -> Path:
    return guest.port.images() / f"{name}.ko"


def state(guest: Booted) -> tuple[object, ...]:
    """Return all state in which a module could leave traces."""
    return (
        [(region.name, region.address, region.size) for region in guest.machine.memory.regions],
        [module.name for module in guest.modules.loaded],
        guest.ftrace.records.names,
        [symbol.name for symbol in guest.kallsyms.functions()],
        guest.text(),
    )


def module(tmp_path: Path, *arguments: object, name: str = "own", **options: object) -> Path:
    return elf_writer.write(tmp_path / f"{name}.ko", elf_writer.module(*arguments, **options))


# Loading


def test_insmod_adds_memory_records_and_symbols_and_runs_init(guest: Booted) -> None:
    usb = guest.modules.insmod(built(guest, "usbcore"))
    area = guest.port.facts.map
    assert area.modules <= usb.base < usb.base + usb.size <= area.modules_end
    assert usb.base % 4096 == 0
    rows = [n for n, name in enumerate(guest.ftrace.records.module_names()) if name == "usbcore"]
    assert len(rows) > 20
    assert guest.site("usb_ifnum_to_if") == NOP
    assert guest.kallsyms.format(guest.address("usb_ifnum_to_if")).endswith("[usbcore]")
    assert any("usbcore: registered" in line for line in guest.machine.dmesg.lines)
    assert guest.modules.refcnt(usb) == 0


def test_a_port_may_load_modules_far_from_the_kernel(
    guest: Booted, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="a single module area"):
        guest.modules.insmod(built(guest, "usbcore"), far=True)
    end = guest.port.facts.map.modules_end
    far = (end - 0x100_0000, end)
    port = replace(guest.port, facts=replace(guest.port.facts, modules_far=far))
    monkeypatch.setattr(guest.modules, "_port", port)
    usb = guest.modules.insmod(built(guest, "usbcore"), far=True)
    hub = guest.modules.insmod(built(guest, "usbhub"))
    assert usb.base == far[0]
    assert hub.base == guest.port.facts.map.modules


def test_a_module_that_needs_another_is_bound_to_it(guest: Booted) -> None:
    usb = guest.modules.insmod(built(guest, "usbcore"))
    hub = guest.modules.insmod(built(guest, "usbhub"))
    assert hub.depends == ("usbcore",)
    assert guest.modules.users("usbcore") == ["usbhub"]
    assert hub.base >= usb.base + usb.size
    with pytest.raises(ModuleError, match="in use by: usbhub") as caught:
        guest.modules.rmmod("usbcore")
    assert caught.value.errno == errno.EBUSY
    guest.modules.rmmod("usbhub")
    guest.modules.rmmod("usbcore")
    assert guest.modules.loaded == []


def test_loading_and_unloading_leaves_no_trace(guest: Booted) -> None:
    guest.machine.run(5_000_000)
    before = state(guest)
    for _ in range(2):
        guest.modules.insmod(built(guest, "usbcore"))
        guest.modules.insmod(built(guest, "usbhub"))
        guest.machine.run(5_000_000)
        guest.modules.rmmod("usbhub")
        guest.modules.rmmod("usbcore")
    assert state(guest) == before
    assert not guest.machine.oopses


def test_a_patched_module_is_reloaded_clean(guest: Booted) -> None:
    before = state(guest)
    ops = guest.counter()
    guest.ftrace.register(ops)
    guest.modules.insmod(built(guest, "usbcore"))
    assert guest.site("usb_ifnum_to_if")[0] == 0xE8, "an empty filter must include new modules"
    assert guest.ftrace.records.flagged(Flag.ENABLED).all()
    guest.machine.run(5_000_000)
    guest.modules.rmmod("usbcore")
    guest.ftrace.unregister(ops)
    assert state(guest)[1:] == before[1:]
    guest.modules.insmod(built(guest, "usbcore"))
    assert guest.site("usb_ifnum_to_if") == NOP


def test_unloading_a_filtered_module_does_not_enable_everything(guest: Booted) -> None:
    guest.modules.insmod(built(guest, "usbcore"))
    ops = guest.counter()
    ops.filter_hash = guest.filter("usb_ifnum_to_if")
    guest.ftrace.register(ops)
    guest.modules.rmmod("usbcore")
    assert not ops.filter_hash.empty
    guest.ftrace.set_hashes(ops, ops.filter_hash)
    assert not guest.ftrace.records.flagged(Flag.ENABLED).any()


def test_a_module_is_loaded_at_the_lowest_free_address(guest: Booted) -> None:
    usb = guest.modules.insmod(built(guest, "usbcore"))
    crashy = guest.modules.insmod(built(guest, "crashy"))
    guest.modules.rmmod("usbcore")
    hub_place = guest.modules.insmod(built(guest, "usbcore"))
    assert hub_place.base == usb.base
    assert crashy.base == usb.base + usb.size


def test_source_lines_of_a_module_come_from_its_debug_data(guest: Booted) -> None:
    usb = guest.modules.insmod(built(guest, "usbcore"))
    name, line = usb.source_line(guest.address("usb_ifnum_to_if"))
    assert "usbcore" in name and line > 0
    assert guest.modules.source_line(guest.address("usb_ifnum_to_if")) == (name, line)
    assert guest.modules.source_line(guest.address("schedule")) is None


def test_module_code_calls_the_kernel_and_other_modules(tmp_path: Path, small: Booted) -> None:
    one = module(tmp_path, ["probe"], {"probe": "kmalloc"}, exports=["probe"], name="one")
    two = module(tmp_path, ["attach"], {"attach": "probe"}, name="two")
    small.modules.insmod(one)
    loaded = small.modules.insmod(two)
    assert loaded.depends == ("one",)
    assert small.machine.requests.call(small.address("attach"), (1,)) == 4
    ops = small.counter()
    small.ftrace.register(ops)
    assert small.machine.requests.call(small.address("attach"), (1,)) == 4
    assert small.counted() == 3, "attach, probe and kmalloc"


def test_the_name_of_an_export_is_in_the_module_itself(
    tmp_path: Path, small: Booted, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_by = list[Callable[[int, int], bytes]]()
    monkeypatch.setattr(
        module_loader, "exports", lambda raw, at, facts, read: read_by.append(read) or {}
    )
    path = module(tmp_path, ["probe"], {"probe": "kmalloc"}, exports=["probe"], name="one")
    one = small.modules.insmod(path)
    assert read_by[0](one.base, 8) and not read_by[0](small.address("kmalloc"), 8)


# Refused modules


def test_loading_a_module_twice_is_eexist(guest: Booted) -> None:
    guest.modules.insmod(built(guest, "usbcore"))
    before = state(guest)
    with pytest.raises(ModuleError, match="File exists") as caught:
        guest.modules.insmod(built(guest, "usbcore"))
    assert caught.value.errno == errno.EEXIST
    assert state(guest) == before


def test_a_missing_dependency_is_an_unknown_symbol(guest: Booted) -> None:
    before = state(guest)
    with pytest.raises(UnknownSymbol, match=r"usbhub: Unknown symbol \w+ \(err -2\)") as caught:
        guest.modules.insmod(built(guest, "usbhub"))
    assert caught.value.errno == errno.ENOENT
    assert state(guest) == before


def test_a_dependency_must_be_loaded_even_if_no_symbol_is_used(
    tmp_path: Path, small: Booted
) -> None:
    path = module(tmp_path, ["probe"], info={"name": "own", "depends": "other"})
    with pytest.raises(ModuleError, match="needs module other") as caught:
        small.modules.insmod(path)
    assert caught.value.errno == errno.ENOENT


def test_a_module_for_another_kernel_is_enoexec(tmp_path: Path, guest: Booted) -> None:
    raw = built(guest, "crashy").read_bytes()
    other = raw.replace(b"vermagic=6.1.0-", b"vermagic=5.9.0-")
    before = state(guest)
    with pytest.raises(
        ModuleError, match=r"version magic '5\.9\.0-.*' should be '6\.1\.0-"
    ) as caught:
        guest.modules.insmod(elf_writer.write(tmp_path / "crashy.ko", other))
    assert caught.value.errno == errno.ENOEXEC
    assert state(guest) == before


@pytest.mark.parametrize("name", ["memcpy_that_nobody_has", "schedule2"])
def test_an_error_names_a_symbol_that_nothing_exports(
    tmp_path: Path, small: Booted, name: str
) -> None:
    before = state(small)
    with pytest.raises(UnknownSymbol, match=f"own: Unknown symbol {name}"):
        small.modules.insmod(module(tmp_path, ["probe"], {"probe": name}))
    assert state(small) == before


def test_a_symbol_that_is_not_exported_is_unknown(tmp_path: Path, guest: Booted) -> None:
    path = module(tmp_path, ["probe"], {"probe": "start_kernel"})
    with pytest.raises(ModuleError, match="version magic"):
        guest.modules.insmod(path)
    magic = next(
        word.split(b"=", 1)[1].decode()
        for word in built(guest, "crashy").read_bytes().split(b"\0")
        if word.startswith(b"vermagic=")
    )
    path = module(tmp_path, ["probe"], {"probe": "start_kernel"}, {"vermagic": magic})
    with pytest.raises(UnknownSymbol, match="start_kernel"):
        guest.modules.insmod(path)


def relocation(tmp_path: Path, kind: int) -> Path:
    """Write a module whose second relocation has the type `kind`."""
    raw = bytearray(elf_writer.module(["probe"], {"probe": "kmalloc"}))
    at = raw.index((7).to_bytes(8, "little")) + 8
    raw[at : at + 4] = kind.to_bytes(4, "little")
    return elf_writer.write(tmp_path / "own.ko", bytes(raw))


def test_an_error_names_the_type_of_a_failed_relocation(tmp_path: Path, small: Booted) -> None:
    before = state(small)
    with pytest.raises(RelocationOverflow, match="R_X86_64_32") as overflow:
        small.modules.insmod(relocation(tmp_path, elf_writer.R_32))
    assert overflow.value.errno == errno.ENOEXEC
    with pytest.raises(UnknownRelocation, match="R_X86_64_GOTPCREL"):
        small.modules.insmod(relocation(tmp_path, 9))
    assert state(small) == before


def test_a_module_with_a_site_that_is_not_a_call_is_loaded_without_ftrace(
    tmp_path: Path, small: Booted
) -> None:
    raw = elf_writer.module(["probe"]).replace(bytes.fromhex("e8 00000000"), b"\x90" + bytes(4))
    before = state(small)
    loaded = small.modules.insmod(elf_writer.write(tmp_path / "own.ko", raw))
    assert small.ftrace.bug is not None and small.ftrace.bug.type is FtraceBugType.INIT
    assert small.ftrace.disabled
    assert small.machine.memory.read(small.ftrace.bug.ip, 1) == b"\x90"
    small.modules.rmmod(loaded.name)
    assert state(small) == before


@pytest.mark.parametrize(
    ("content", "error", "sentence"),
    [
        (SMALL, ImageError, "linked already"),
        (b"\x7fELF nonsense", ImageError, "own.ko"),
        (elf_writer.module(["a"])[:500], ImageError, "truncated"),
    ],
    ids=["executable", "nonsense", "cut"],
)
def test_a_file_that_is_not_a_module_is_refused(
    tmp_path: Path, small: Booted, content: bytes, error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        small.modules.insmod(elf_writer.write(tmp_path / "own.ko", content))


def test_a_module_for_another_machine_is_refused(tmp_path: Path, small: Booted) -> None:
    raw = bytearray(elf_writer.module(["a"]))
    raw[18] = 8
    with pytest.raises(WrongMachineError, match="is for EM_MIPS"):
        small.modules.insmod(elf_writer.write(tmp_path / "own.ko", bytes(raw)))


def test_a_module_larger_than_the_module_area_is_enomem(tmp_path: Path, small: Booted) -> None:
    raw = elf_writer.module(["a"], data=bytes(16))
    header = raw.index(b"\x01\0\0\0\x03\0\0\0\0\0\0\0")  # .data: PROGBITS, WRITE | ALLOC
    grown = bytearray(raw)
    grown[header : header + 4] = (8).to_bytes(4, "little")  # NOBITS
    grown[header + 28 : header + 36] = (0x3000_0000).to_bytes(8, "little")
    with pytest.raises(ModuleError, match="Cannot allocate memory") as caught:
        small.modules.insmod(elf_writer.write(tmp_path / "own.ko", bytes(grown)))
    assert caught.value.errno == errno.ENOMEM


@pytest.mark.parametrize("code", [-12, -22])
def test_an_init_that_fails_undoes_the_load(tmp_path: Path, small: Booted, code: int) -> None:
    path = module(tmp_path, ["start", "leave"], returns={"start": code}, ends=("start", "leave"))
    small.machine.requests.call(small.address("schedule"), (0,))  # creates the stack for the call
    before = state(small)
    with pytest.raises(ModuleError) as caught:
        small.modules.insmod(path)
    assert caught.value.errno == abs(code)
    assert state(small) == before


def test_an_init_that_returns_a_positive_value_gives_a_warning(
    tmp_path: Path, small: Booted
) -> None:
    path = module(tmp_path, ["start", "leave"], returns={"start": 5}, ends=("start", "leave"))
    small.modules.insmod(path)
    assert any("own: init returned 5" in line for line in small.machine.dmesg.lines)
    small.modules.rmmod("own")


# Unloading


def test_init_and_exit_run_and_are_traced(tmp_path: Path, small: Booted) -> None:
    path = module(tmp_path, ["start", "leave"], returns={"start": 0}, ends=("start", "leave"))
    small.ftrace.register(small.counter())
    small.modules.insmod(path)
    assert small.counted() == 1
    small.modules.rmmod("own")
    assert small.counted() == 2
    with pytest.raises(ModuleError):
        small.modules.rmmod("own")


def test_unloading_a_module_that_is_not_loaded_is_enoent(guest: Booted) -> None:
    with pytest.raises(ModuleError, match="Module usbcore is not currently loaded") as caught:
        guest.modules.rmmod("usbcore")
    assert caught.value.errno == errno.ENOENT


def test_unloading_a_module_in_use_is_ebusy(guest: Booted) -> None:
    usb = guest.modules.insmod(built(guest, "usbcore"))
    this = usb.this_module
    assert guest.machine.requests.call(guest.address("try_module_get"), (this,)) == 1
    assert guest.modules.refcnt(usb) == 1
    with pytest.raises(ModuleError, match="is in use") as caught:
        guest.modules.rmmod("usbcore")
    assert caught.value.errno == errno.EBUSY
    guest.machine.requests.call(guest.address("module_put"), (this,))
    guest.modules.rmmod("usbcore")


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_damaged_module_is_refused_and_leaves_no_trace(
    tmp_path: Path, small: Booted, data: st.DataObject
) -> None:
    raw = bytearray(elf_writer.module(["a", "b"], {"a": "kmalloc"}, {"depends": ""}, ["a"]))
    for place in data.draw(st.lists(st.integers(16, len(raw) - 1), min_size=1, max_size=4)):
        raw[place] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]))
    before = state(small)
    try:
        loaded = small.modules.insmod(elf_writer.write(tmp_path / "own.ko", bytes(raw)))
    except DynftraceError as error:
        assert str(error)
    else:
        small.modules.rmmod(loaded.name)
    small.ftrace.text.disabled = False
    assert state(small) == before


def test_a_module_without_symbols_still_has_sections(tmp_path: Path, small: Booted) -> None:
    loaded = small.modules.insmod(module(tmp_path, ["probe"], data=b"\x2a" * 8))
    place = loaded.sections[".data"]
    assert small.machine.memory.read(place, 8) == b"\x2a" * 8
    assert np.all(small.machine.memory.view(place + 8, 100) == 0)


def log(guest: Booted) -> str:
    return "\n".join(guest.machine.dmesg.lines)


def ran_for(guest: Booted, args: str) -> int:
    """Load the module of critical sections; return the virtual ns that its init took."""
    start = guest.machine.now
    guest.modules.insmod(built(guest, "preemptirq_delay_test"), args=args)
    guest.modules.rmmod("preemptirq_delay_test")
    return guest.machine.now - start


def test_parameters_are_set_before_init(guest: Booted) -> None:
    short, long = ran_for(guest, "delay=1"), ran_for(guest, "delay=2000 burst-size=3")
    assert short < 1_000_000 < 6_000_000 <= long < 7_000_000
    assert ran_for(guest, 'test_mode=preempt delay=1000 "burst_size=2" nosuch') >= 2_000_000
    assert "preemptirq_delay_test: unknown parameter 'nosuch' ignored" in log(guest)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("delay=fast", "`fast' invalid for parameter `delay'"),
        ("delay=-1", "`-1' invalid for parameter `delay'"),
        ("burst_size", "`' invalid for parameter `burst_size'"),
        ("test_mode=alternating-sections", "`alternating-sections' too large for parameter"),
    ],
)
def test_a_wrong_parameter_is_refused(guest: Booted, args: str, said: str) -> None:
    before = state(guest)
    with pytest.raises(ModuleError) as refused:
        guest.modules.insmod(built(guest, "preemptirq_delay_test"), args=args)
    assert refused.value.errno in (errno.EINVAL, errno.ENOSPC)
    assert said in log(guest) and state(guest) == before


def test_parameters_that_are_too_long(guest: Booted) -> None:
    with pytest.raises(UsageError, match="at most 511 bytes"):
        guest.modules.insmod(built(guest, "preemptirq_delay_test"), args="x" * 512)
