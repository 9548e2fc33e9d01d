"""The shell's commands, each file a noun they are about."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..command import Command
from . import cpu, files, help, memory, modules, sites, system, workloads


def commands() -> Mapping[str, Command]:
    """Every command by name, in the order `help` lists them."""
    found = (
        *files.COMMANDS,
        *modules.COMMANDS,
        *workloads.COMMANDS,
        *sites.COMMANDS,
        *memory.COMMANDS,
        *cpu.COMMANDS,
        *system.COMMANDS,
        *help.COMMANDS,
    )
    return MappingProxyType({command.name: command for command in found})
