"""patch: a change of text in slow motion; race: a CPU meets a patch at each position."""

from __future__ import annotations

import re

import pytest

from dynftrace.core.errors import UsageError
from dynftrace.core.session import checkpoint
from dynftrace.core.shell.outcome import Reached, ShowedRace
from dynftrace.core.shell.shell import Shell

from ...support.digest import of_memory
from ...support.ports import FAMILIES
from ...support.user import User, at_once


def memory(user: User) -> str:
    """Return a digest of all memory."""
    return of_memory(user.session.boot.machine.memory)


def at_site(user: User, function: str, size: int) -> str:
    """Return the bytes at the site of `function`, read from memory."""
    boot = user.session.boot
    row = boot.ftrace.records.names.index(user.prefix + function)
    return boot.machine.memory.read(int(boot.ftrace.records.table["ip"][row]), size).hex(" ")


def code(user: User) -> list[tuple[str, bytes]]:
    """Return the contents of all code; what the guest's tasks do meanwhile is elsewhere."""
    regions = user.session.boot.machine.memory.regions
    return [(each.name, each.bytes.tobytes()) for each in regions if each.executable]


@pytest.mark.parametrize("arch", FAMILIES)
@pytest.mark.parametrize("graph", [False, True], ids=["function", "graph"])
@pytest.mark.parametrize("helped", [False, True], ids=["host", "guest"])
def test_a_watched_change_ends_as_an_unwatched_one(arch: str, graph: bool, helped: bool) -> None:
    """Without the guest's help no time passes, so all memory is the same, and not only code."""
    user = User(arch)
    if not helped:
        at_once(user.session)
    tracer = "function_graph" if graph else "function"
    commands = (f"echo {tracer} > current_tracer", "echo nop > current_tracer")
    ends = []
    for word in ("off", "on"):
        again = checkpoint.save(user.session.boot)
        user(f"patch watch {word}")
        found = []
        for command in commands:
            before = user.text()
            user(command)
            if word == "on":
                user.same_text(before)
                assert "comes next" in user("patch")
                user("patch finish")
            found.append(code(user) if helped else memory(user))
        ends.append(found)
        again()
    assert ends[0] == ends[1]


def test_breakpoint_patching_shows_the_bytes_of_the_kernels_comments() -> None:
    """text_poke_bp_batch: int3; sync; all but the first byte; sync; the first byte; sync."""
    user = User("x86_64")
    user("patch breakpoint; patch watch schedule; echo function > current_tracer")
    call = re.findall(r"phase 11 +\[e8\](.{11})", user("patch"))[0]
    steps = [at_site(user, "schedule", 5)]
    for _ in range(6):
        user("patch next")
        steps.append(at_site(user, "schedule", 5))
    nop = "0f 1f 44 00 00"
    trap, tail = f"cc{nop[2:]}", f"cc {call}"
    assert steps == [nop, trap, trap, tail, tail, f"e8 {call}", f"e8 {call}"]
    assert "the patch is complete" in user("patch finish")


def test_a_cpu_that_hits_the_breakpoint_continues_as_the_new_text() -> None:
    user = User("x86_64")
    user("patch breakpoint; patch watch schedule; echo function > current_tracer; patch next")
    assert "! not yet what ftrace expects: a patch is under way" in user("site schedule")
    assert "int3" in user("until schedule")
    assert "  ftrace_caller+0x0" in user("step 1")
    user("patch finish; run syscalls")
    assert not user.session.boot.machine.oopses


def test_between_a_write_and_its_sync_a_cpu_is_stale() -> None:
    user = User("x86_64")
    user("run syscalls; patch breakpoint; patch watch schedule")
    user("echo function > current_tracer; run syscalls; patch next")
    view = user.session.patch_view()
    assert view is not None and view.now[0] == 0xCC
    stale = [lane for lane in view.lanes if lane.stale]
    assert stale and all(lane.site == bytes.fromhex("0f1f440000") for lane in stale)
    user("patch next")
    view = user.session.patch_view()
    assert view is not None and not any(lane.stale for lane in view.lanes)


def test_other_changes_wait_and_a_damaged_site_restores_everything() -> None:
    user = User("x86_64")
    before = user.text()
    user("patch breakpoint; patch watch schedule; echo function > current_tracer; patch next 2")
    busy = "a patch is under way: type `patch finish`"
    for command in ("echo nop > current_tracer", "insmod usbcore", "patch none"):
        assert busy in user.refused(command)
    middle = user("patch")
    user("patch next\nstep 2")
    user("back 2")
    assert user("patch") == middle
    user("poke schedule+1 90")
    assert "schedule" in user.refused("patch next")
    user("back")  # the phase that was refused
    user("back; patch finish")
    assert user.state("schedule") == "enabled"
    user("back; poke schedule+1 90")
    user.refused("patch next")
    user.same_text(before)
    assert user("cat current_tracer") == "nop\n"
    assert "ftrace bug" in user("dmesg")


def test_a_page_unmapped_meanwhile_does_not_stop_the_restore_of_the_rest() -> None:
    user = User("x86_64")
    before = at_site(user, "vfs_read", 5)
    user("patch breakpoint; patch watch vfs_read; echo function > current_tracer; patch next 2")
    user("protect schedule none")
    assert "comes next" in user("patch")
    assert "faulted on modifying" in user.refused("patch next")
    assert at_site(user, "vfs_read", 5) == before
    assert user("cat current_tracer") == "nop\n"


def test_no_cpu_runs_while_stop_machine_holds_it() -> None:
    user = User("x86_64")
    user("echo schedule > set_ftrace_filter; nmi 0 change; patch watch on")
    user("echo function > current_tracer; patch next 3")
    held = user.refused("step 1")
    assert "the patch holds all CPUs now: type `patch next` first" in held
    with pytest.raises(UsageError):
        user.session.run(1000)
    user("patch next; step 1")


def results(user: User, command: str) -> dict[str, list[list[str]]]:
    """Return the cells of a race by its place, enabling first; oopses without their numbers."""
    found: dict[str, list[list[str]]] = {}
    for line in user(command).splitlines():
        match = re.match(r"\d+ +site([+-]\d+)(?: inside)? +(.*)", line)
        if match:
            cells = re.split(r"  +", re.sub(r" \(\d+\)", "", match[2]))[1:]
            found.setdefault(match[1], []).append(cells)
    return found


def test_ppc64_loses_r2_between_two_nops() -> None:
    user = User("ppc64", modules=("usbcore", "usbhub"))
    before = memory(user)
    table = results(user, "race --method stop_machine usb_ifnum_to_if usb")
    assert memory(user) == before
    fine = ["fine"]
    assert table.pop("+4") == [["lost r2"], fine]
    assert set(table) == {"-4", "+0", "+8"} and all(each == [fine, fine] for each in table.values())


@pytest.mark.parametrize("nop, lost", [("nop", True), ("b", False)])
def test_a_site_of_two_nops_on_mips_is_unsafe_for_a_cpu_inside(nop: str, lost: bool) -> None:
    table = results(User("mips", nop=nop), "race --method stop_machine vfs_read")
    assert ("+4" in table) == lost
    assert table.pop("+4", [["oops"]])[0] == ["oops"]
    assert table and all(cell == ["fine"] for each in table.values() for cell in each)


def test_half_written_text_crashes_and_a_breakpoint_does_not() -> None:
    user = User("x86_64")
    table = results(user, "race schedule")
    assert all(cells[:2] == ["fine", "fine"] for each in table.values() for cells in each)
    # What half a call leads to depends on where the functions are.
    others = (results(user, f"race --method none {name}") for name in ("vfs_read", "kfree", "dput"))
    assert any(each["+0"][0] == ["oops"] for each in others) or table["+0"][0][2] == "oops"


@pytest.mark.parametrize("arch", ["ppc64", "mips"])
def test_the_commands_of_a_row_lead_to_what_the_table_says(arch: str) -> None:
    """What the race found is found again by typing its commands, then `patch finish`."""
    function = "usb_ifnum_to_if" if arch == "ppc64" else "schedule"
    user = User(arch)
    user("insmod usbcore; insmod usbhub")
    outcome = Shell(user.session).execute(f"race {function}")
    table = next(each.table for each in outcome.effects if isinstance(each, ShowedRace))
    machine, ends = user.session.boot.machine, set()
    bad = next(row for row in table.rows if any(each.bad for each in row.results))
    for row in (table.rows[0], bad):
        for method, result in zip(table.methods, row.results, strict=True):
            reached = Shell(user.session).execute(table.commands(row, method)).effects[-1]
            assert isinstance(reached, Reached) and reached.pc == row.address
            assert machine.vcpus[reached.cpu].registers.pc == row.address
            assert user.session.boot.ftrace.patcher.patch is not None
            run = "" if table.workload is None else f"; run {table.workload}"
            Shell(user.session).execute(f"patch finish; sleep 0.02{run}")
            assert bool(machine.oopses) == result.bad, (row, method)
            ends.add(result.bad)
            user("back 2")
    assert ends == {False, True}
