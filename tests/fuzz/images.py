"""Damaged kernels and modules of every port: loaded, booted, traced, run and unloaded."""

from __future__ import annotations

from functools import cache
from random import Random

from dynftrace import arches
from dynftrace.core.memento import Restore
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

from ..support import elf_damage
from .kind import Case, Wrong, impatient, written

MACHINES = 4
"""Booted machines that a process keeps."""

_open: dict[str, tuple[Session, Restore]] = {}


def machine(arch: str) -> Session:
    """Return a booted machine at its start; a process keeps a few."""
    if arch not in _open:
        if len(_open) >= MACHINES:
            _open.pop(next(iter(_open)))
        session = Session.open(arches.load(arch))
        _open[arch] = session, session.save()
    session, restart = _open[arch]
    restart()
    return session


def execute(session: Session, commands: str) -> str:
    """Execute commands and return what became of the first that failed. Raises `Wrong`."""
    with impatient(session):
        outcome = Shell(session).execute(commands)
    said = outcome.output + outcome.error
    if "Traceback (most recent" in said:
        raise Wrong(said[-2000:])
    if "oops" in outcome.error.lower() or session.boot.machine.oopses:
        return "ran to an oops"
    return "ran with errors" if outcome.error else "ran"


@cache
def file(arch: str, name: str) -> bytes:
    """Return an image of a port."""
    return (arches.load(arch).images() / name).read_bytes()


def code(random: Random, content: bytes) -> bytes:
    """Return `content` with a few bits of code, of data or of relocations changed.

    Most such files are accepted: what runs then is wrong in ways that no compiler makes.
    """
    raw = bytearray(content)
    for _ in range(random.randint(1, 4)):
        elf_damage.bits(random, content, raw)
    return bytes(raw)


class Kernel:
    """A damaged kernel: opened, and traced while it runs a workload if it boots."""

    name, suffix = "kernel", ".elf"

    def case(self, random: Random) -> Case:
        arch = random.choice(arches.names())
        damage = random.choice((elf_damage.damaged, code))
        return Case(damage(random, file(arch, "vmlinux.elf")), f"--kernel FILE --arch {arch}")

    def take(self, case: Case) -> str:
        path, arch = written("vmlinux", case.content), case.about.split()[-1]
        spec = MachineSpec(kernel=path, cpus=2)
        session = Session.open(arches.load(arch), spec)
        return execute(
            session,
            "site schedule; echo function > current_tracer; run syscalls; tramp; cat trace; dmesg;"
            "echo function_graph > current_tracer; run pipes; cat trace; records schedule;"
            "insmod usbcore; run usb; echo nop > current_tracer; lsmod; regs; bits schedule",
        )


class Module:
    """A damaged module: loaded, used by workloads while it is traced, and unloaded."""

    name, suffix = "module", ".ko"

    def case(self, random: Random) -> Case:
        arch = random.choice(arches.names())
        files = sorted(path.name for path in arches.load(arch).images().glob("*.ko"))
        name = random.choice(files)
        damage = random.choice((elf_damage.damaged, code))
        far = "--far " if random.random() < 0.1 else ""
        about = f"insmod {far}{name.removesuffix('.ko')} on {arch}"
        return Case(damage(random, file(arch, name)), about)

    def take(self, case: Case) -> str:
        *options, name, _, arch = case.about.split()[1:]
        session = machine(arch)
        path = written(f"{name}.ko", case.content)
        before = "insmod usbcore; " if name == "usbhub" else ""
        loaded = execute(session, f"{before}insmod {' '.join(options)} {path}")
        if loaded != "ran":
            return f"insmod {loaded}"
        return execute(
            session,
            "lsmod; echo function > current_tracer; run usb; cat trace;"
            "echo 1 > options/sym-offset;"
            "echo function_graph > current_tracer; run usb; run syscalls; cat trace; records;"
            "cat available_filter_functions; tramp usbcore ftrace_caller; site usb_ifnum_to_if;"
            f"echo nop > current_tracer; rmmod usbhub; rmmod {name}; lsmod; dmesg; run syscalls",
        )
