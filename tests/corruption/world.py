"""A machine whose text is damaged bit by bit before each kind of change.

One boot serves all tries. A refused command must leave everything as it was, and an accepted one
is undone by its inverse. The guest prepares each change, so it may run through the damage: if
that crashes it, the state before the try is restored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dynftrace import arches
from dynftrace.core.arch import ModuleStub
from dynftrace.core.errors import FtraceBug, GuestError
from dynftrace.core.ftrace.entry import CALLERS, GRAPH_CALL, GRAPH_CALLER, SLOTS
from dynftrace.core.ftrace.records import KERNEL
from dynftrace.core.memento import Restore
from dynftrace.core.portcheck.equilibrium import reach
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

MODULES = ("usbcore", "usbcore-trampoline")
"""Modules with call sites, each of its own form; not every port has the second."""

UNCALLED = "crashy"
"""A module whose init and exit call none of its other functions."""

OTHERS = 6
"""Further call sites that are traced together with the damaged ones."""

STACK = "/proc/sys/kernel/stack_tracer_enabled"


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes that ftrace patches, or calls through."""

    kind: str
    """What they are, the same on all ports."""
    address: int
    size: int


@dataclass(frozen=True, slots=True)
class Command:
    """A write to a file, and the write that undoes it."""

    name: str
    path: str
    text: str
    undo: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Situation:
    """What is on before a command: `setup` are writes to files."""

    name: str
    setup: tuple[tuple[str, str], ...]
    commands: tuple[Command, ...]


def tracer(name: str, before: str) -> Command:
    """Return the command that switches from the tracer `before` to `name`."""
    path = "current_tracer"
    return Command(f"{before} -> {name}", path, name, (path, before))


@dataclass
class Result:
    """The tries of one machine."""

    machine: str
    tries: int = 0
    refused: int = 0
    unread: Counter[str] = field(default_factory=Counter)
    """Accepted tries, by kind of place: the command neither changes it nor calls through it."""
    crashed: Counter[str] = field(default_factory=Counter)
    """Tries, refused or not, in which the guest ran the damaged bytes and oopsed or hung."""
    failures: list[str] = field(default_factory=list)
    """Tries that wrote something although they were refused, or that wrote something wrong, or
    that were accepted although the command changes the damaged place."""


class World:
    """A booted machine of one port."""

    def __init__(self, arch: str, *, nop: str | None = None, patch: str | None = None) -> None:
        port = arches.load(arch)
        self.session = Session.open(port, MachineSpec(cpus=1, nop=nop, patch=patch))
        self.sh = Shell(self.session)
        far = port.facts.modules_far is not None
        for name in MODULES:
            if name in self.session.available_modules():
                self.session.insmod(name, far=far)
        self._find_sites()
        self.boot = self.session.boot
        self.ftrace = self.boot.ftrace
        self._kept: set[int] = set()
        """Addresses in the trampolines that are in use after the current command."""
        self.result = Result(" ".join(filter(None, (arch, nop, patch))))
        self.chosen = self._choose()
        self.write("set_ftrace_filter", " ".join(self.chosen.values()))

    def _find_sites(self) -> None:
        """Let ftraced find all sites that the tries run into, if no table lists them."""
        ftraced = self.session.boot.ftrace.ftraced
        if ftraced is not None:
            reach(self.session)
            # A change of text runs functions too.
            self.sh.execute("echo function > current_tracer; echo nop > current_tracer; sleep 1")
            ftraced.collect()

    def _choose(self) -> dict[int, str]:
        """Return functions to trace, of the kernel and each module: a filter word by row."""
        records, chosen = self.ftrace.records, {}
        for number in np.unique(records.table["module"]).tolist():
            rows = np.flatnonzero(records.table["module"] == number).tolist()
            count = OTHERS if number == KERNEL else 2
            for row in rows[:: len(rows) // count if number == KERNEL else 1][:count]:
                module = records.module_of(row)
                chosen[row] = records.names[row] + (f":mod:{module}" if module else "")
        return chosen

    def write(self, path: str, text: str) -> None:
        """Write one line to a file."""
        self.boot.tracefs.write(path, text + "\n")

    # What may be damaged

    def sites(self) -> Iterator[Place]:
        """Yield a call site of the kernel and one of each module."""
        records, seen = self.ftrace.records, set()
        for row in self.chosen:
            number = int(records.table["module"][row])
            if number not in seen:
                seen.add(number)
                module = records.module_of(row)
                kind = "kernel site" if module is None else "module site"
                size = int(self.session.port.lengths(records.sites(np.array([row])))[0])
                yield Place(kind, records.ip_of(row), size)

    def stubs(self) -> Iterator[Place]:
        """Yield the module stubs and PLT entries that lead to what ftrace calls, and mcount."""
        kept: dict[int, ModuleStub] = {each.address: each for each in self.ftrace.records.stubs}
        for stub in kept.values():
            if stub.symbol in CALLERS:
                yield Place(f"stub of {stub.symbol}", stub.address, len(stub.code))

    def slots(self) -> Iterator[Place]:
        """Yield the slots in ftrace_caller and in mcount."""
        entry, port, slot = self.ftrace.entry, self.session.port, self.ftrace.slot
        for name in SLOTS.values():
            if name in entry.symbols:
                edit = port.update_ftrace_func(entry[name], slot, slot)
                yield Place(name, int(edit.address[0]), edit.expected.shape[1])
        if GRAPH_CALL in entry.symbols:
            edit = port.enable_graph_caller(entry[GRAPH_CALL], entry[GRAPH_CALLER])
            yield Place(GRAPH_CALL, int(edit.address[0]), edit.expected.shape[1])
        if self.ftrace.ftraced is not None:
            edit = self.ftrace.ftraced.mcount_edit(suspended=False)
            yield Place("mcount_call", int(edit.address[0]), edit.expected.shape[1])

    def trampolines(self) -> Iterator[Place]:
        """Yield the trampoline of each user that has one."""
        own = self.ftrace.trampolines
        for each in [] if own is None else own.of(self.ftrace.ops):
            edit = self.session.port.update_ftrace_func(each.slot, each.func, each.func)
            size = edit.expected.shape[1]
            yield Place("slot of a trampoline", each.slot, size)
            yield Place("trampoline before its slot", each.address, each.slot - each.address)

    def places(self) -> list[Place]:
        """Return everything that is damaged in this situation."""
        return [*self.sites(), *self.stubs(), *self.slots(), *self.trampolines()]

    # What is compared

    def parts(self) -> list[tuple[int, int]]:
        """Return address and size of the kernel's text, the entry code, modules, trampolines."""
        entry, section = self.ftrace.entry, self.session.image.section(".text")
        assert section is not None
        own = self.ftrace.trampolines
        return [
            (section.address, section.size),
            (entry.address, len(entry.code)),
            *sorted(self._module_parts()),
            *((each.address, len(each.code)) for each in (() if own is None else own.made)),
        ]

    def _module_parts(self) -> Iterator[tuple[int, int]]:
        """Yield address and size of the code of each module, and of its stubs."""
        for module in self.boot.modules.loaded:
            for name, address in module.sections.items():
                section = module.image.section(name)
                if name.startswith(".text") and section is not None:
                    yield address, section.size
            if self.session.port.stubs is not None:
                yield from ((each.address, len(each.code)) for each in module.stubs)

    def text(self) -> NDArray[np.uint8]:
        """Return all of `parts`, one after the other."""
        memory = self.boot.machine.memory
        return np.concatenate([memory.view(*part) for part in self.parts()])

    def read_by(self, before: NDArray[np.uint8], clean: NDArray[np.uint8]) -> set[Place]:
        """Return the places that a command which makes `clean` of `before` has to compare."""
        port, parts = self.session.port, self.parts()
        width = port.facts.sites.size
        starts = np.cumsum([0] + [size for _, size in parts])[:-1].tolist()

        def row_of(address: int) -> int:
            """Return where `address` is in `text`."""
            for (start, size), row in zip(parts, starts, strict=True):
                if start <= address < start + size:
                    return int(row) + address - start
            raise ValueError(f"{address:#x} is not compared")

        ips = np.sort(self.ftrace.records.table["ip"])
        targets: set[int | None] = set()
        for (start, size), row in zip(parts, starts, strict=True):
            changed = np.flatnonzero(before[row : row + size] != clean[row : row + size])
            last = np.searchsorted(ips, changed.astype(np.uint64) + np.uint64(start), "right") - 1
            for ip in ips[np.unique(last[last >= 0])].tolist():
                if start <= ip < start + size:
                    at = slice(row + ip - start, row + ip - start + width)
                    texts = before[at].tobytes(), clean[at].tobytes()
                    targets |= {port.call_target(ip, text) for text in texts}
        read = set()
        for place in self.places():
            first = row_of(place.address)
            at = slice(first, first + place.size)
            changes = not np.array_equal(before[at], clean[at])
            always = place.kind in ("mcount_call", *SLOTS.values())
            through = place.address in (self._kept if "trampoline" in place.kind else targets)
            if changes or always or through or (place.kind == GRAPH_CALL and self.ftrace.graph):
                read.add(place)
        return read

    def state(self) -> tuple[object, ...]:
        """Return what ftrace and the files say, apart from the bug itself."""
        array, table = self.boot.array, self.ftrace.records.table
        hashes = [
            (each.name, each.func, each.filter_hash.ips.tobytes()) for each in self.ftrace.ops
        ]
        return (
            *(array.tracer, array.profile.on, array.stack.enabled, self.ftrace.pids.pids),
            *(hashes, self.ftrace.slot, self.ftrace.graph, array.hash(False).ips.tobytes()),
            *(table["flags"].tobytes(), table["tramp"].tobytes(), table["tramp_en"].tobytes()),
            *(dict(array.options), [event.on for event in array.events]),
        )

    # Tries

    def situations(self) -> list[Situation]:
        """Return what can be on, and the commands tried then."""
        graph, everything = self.boot.array.graph.available, "function"
        switches = ["function", *(["function_graph"] if graph else [])]
        profile = Command(
            "profiler on", "function_profile_enabled", "1", ("function_profile_enabled", "0")
        )
        stack = Command("stack tracer on", STACK, "1", (STACK, "0"))
        names = " ".join(self.chosen.values())
        half = " ".join(list(self.chosen.values())[1::2])
        fewer = Command("fewer functions", "set_ftrace_filter", half, ("set_ftrace_filter", names))
        on = [
            Situation(
                name,
                (("current_tracer", name),),
                (
                    tracer("nop", name),
                    *(tracer(other, name) for other in switches if other != name),
                    fewer,
                ),
            )
            for name in switches
        ]
        setup = [("current_tracer", everything), (STACK, "1")]
        both = [
            Command("stack tracer off", STACK, "0", (STACK, "1")),
            tracer("nop", everything),
            Command("pids", "set_ftrace_pid", "1", ("set_ftrace_pid", "")),
        ]
        if "ftrace_regs_caller" in self.ftrace.entry.symbols:
            words = [word.partition(":")[0] for word in self.chosen.values() if ":" in word]
            self.write("dynamic_events", f"f:fire {words[0]}")
            probe = "events/fprobes/fire/enable"
            setup.append((probe, "1"))
            both.append(Command("fprobe off", probe, "0", (probe, "1")))
        nop = tuple(tracer(name, "nop") for name in switches)
        return [
            Situation("nothing on", (), (*nop, profile, stack)),
            *on,
            Situation("several users", tuple(setup), tuple(both)),
        ]

    def run(self, stride: int = 1, commands: slice = slice(None)) -> Result:
        """Try every `stride`-th bit of every place before every command of `commands`."""
        number, situations = 0, self.situations()
        chosen = [command for each in situations for command in each.commands][commands]
        for situation in situations:
            if not set(chosen) & set(situation.commands):
                continue
            for path, text in situation.setup:
                self.write(path, text)
            for command in (each for each in situation.commands if each in chosen):
                clean = self._clean(command)
                before, state = self.text(), self.state()
                read, restore = self.read_by(before, clean), self.session.save()
                for place in self.places():
                    for bit in range(8 * place.size):
                        number += 1
                        if number % stride == 0:
                            what = f"{situation.name}: {command.name}"
                            known = (before, state, clean, place in read, restore)
                            self._try(what, command, place, bit, known)
            for path, _ in reversed(situation.setup):
                self.write(path, "nop" if path == "current_tracer" else "0")
        return self.result

    def run_modules(self) -> Result:
        """Damage each byte while all functions are traced, then load or unload a module.

        insmod must be refused for damage in a slot. rmmod changes no text but that of its
        module, whatever is damaged there.
        """
        self.write("set_ftrace_filter", "")
        self.write("current_tracer", "function")
        self.sh.execute(f"insmod {UNCALLED}")
        # Init runs through ftrace_caller: damage that ftrace does not read would crash it.
        slots = [place for place in self.slots() if place.kind != GRAPH_CALL]
        if self.ftrace.ftraced is not None:
            slots.clear()  # sites of a new module are found when they run
        records, size = self.ftrace.records, self.session.port.facts.sites.size
        ips = [
            records.ip_of(row)
            for row, name in enumerate(records.module_names())
            if name == UNCALLED and "frame" in records.names[row]
        ]
        sites = [Place("module site", ip, size) for ip in ips]
        for command, undo, places in (
            ("insmod usbhub", "rmmod usbhub", slots),
            (f"rmmod {UNCALLED}", f"insmod {UNCALLED}", sites),
        ):
            restore = self.session.save()
            for place in places:
                for at in range(place.size):
                    self._try_module(command, undo, place, at)
                    if self.boot.machine.oopses:
                        self.result.crashed[place.kind] += 1
                        restore()
        self.write("current_tracer", "nop")
        return self.result

    def _try_module(self, command: str, undo: str, place: Place, at: int) -> None:
        """Damage a byte of `place`, load or unload a module, compare, and repair both."""
        memory, result, before = self.boot.machine.memory, self.result, self.text()
        byte = memory.view(place.address + at, 1)
        kept = int(byte[0])
        byte[0] = kept ^ 1
        damaged, loaded = self.text(), [each.name for each in self.boot.modules.loaded]
        what = f"{command}: {place.kind}+{at:#x}"
        status = self.sh.execute(command).status
        result.tries += 1
        result.refused += bool(status)
        read = command.startswith("insmod")
        if bool(status) != read:
            result.failures.append(f"{what}: {'refused' if status else 'accepted'}")
        if status:
            if not np.array_equal(self.text(), damaged):
                result.failures.append(f"{what}: refused, but text was written")
            if [each.name for each in self.boot.modules.loaded] != loaded:
                result.failures.append(f"{what}: refused, but the modules have changed")
            byte[0] = kept
            self._revive()
        else:
            if not read:
                result.unread[place.kind] += 1
            if memory.region_at(place.address) is not None:
                byte[0] = kept
            self.sh.execute(undo)
        if not np.array_equal(self.text(), before):
            raise RuntimeError(f"{what}: the text did not return to what it was")

    def check_running(self) -> None:
        """Check that the guest still traces: nothing that was tried has left anything behind."""
        self.write("current_tracer", "function")
        outcome = self.sh.execute("run usb; echo nop > current_tracer")
        if outcome.status or self.boot.machine.oopses:
            self.result.failures.append(f"afterwards: {outcome.error}")

    def _clean(self, command: Command) -> NDArray[np.uint8]:
        """Return the text after the command without damage; trampolines are made here."""
        for _ in range(2):
            self.write(command.path, command.text)
            clean = self.text()
            self._kept = {each.address for each in self.trampolines()}
            self.write(*command.undo)
        return clean

    def _try(
        self,
        what: str,
        command: Command,
        place: Place,
        bit: int,
        known: tuple[NDArray[np.uint8], tuple[object, ...], NDArray[np.uint8], bool, Restore],
    ) -> None:
        """Damage one bit, execute the command, and compare; then repair both."""
        before, state, clean, read, restore = known
        result, memory = self.result, self.boot.machine.memory
        address = place.address + bit // 8
        byte = memory.view(address, 1)
        kept = int(byte[0])
        byte[0] = kept ^ 1 << bit % 8
        damaged = self.text()
        result.tries += 1
        what = f"{what}: {place.kind}+{bit // 8:#x} bit {bit % 8}"
        wrong = np.flatnonzero(damaged != before)
        assert len(wrong) == 1
        hung = False
        try:
            self.write(command.path, command.text)
        except (FtraceBug, GuestError) as error:
            hung = isinstance(error, GuestError)
            result.refused += 1
            if not np.array_equal(self.text(), damaged):
                result.failures.append(f"{what}: refused, but text was written")
            elif self.state() != state:
                result.failures.append(f"{what}: refused, but the state has changed")
            byte[0] = kept
            self._revive()
        else:
            after = self.text()
            after[wrong] ^= 1 << bit % 8
            if not np.array_equal(after, clean):
                result.failures.append(f"{what}: accepted, and the text is wrong")
            if read:
                result.failures.append(f"{what}: accepted, although the place changes")
            result.unread[place.kind] += 1
            byte[0] = kept
            try:
                self.write(*command.undo)
            except GuestError:
                hung = True
        if hung or self.boot.machine.oopses:
            result.crashed[place.kind] += 1
            restore()
        if not np.array_equal(self.text(), before) or self.state() != state:
            result.failures.append(f"{what}: the text did not return to what it was")
            raise RuntimeError(result.failures[-1])

    def _revive(self) -> None:
        """Switch ftrace on again after a bug, instead of a reboot."""
        self.ftrace.text.disabled = False
        self.ftrace.text.bug = None
        self.ftrace.records.table["failed"] = False
        if self.ftrace.ftraced is not None:
            self.ftrace.ftraced._off = False
            self.ftrace.ftraced.stop(False)
