"""The shell's commands, one file for each subject."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..command import Command
from .buffers import COMMANDS as BUFFERS
from .conditions import COMMANDS as CONDITIONS
from .cpu import COMMANDS as CPU
from .experiments import COMMANDS as EXPERIMENTS
from .files import COMMANDS as FILES
from .filters import COMMANDS as FILTERS
from .help import COMMANDS as HELP
from .machine import COMMANDS as SYSTEM
from .memory import COMMANDS as MEMORY
from .modules import COMMANDS as MODULES
from .nmi import COMMANDS as NMI
from .patching import COMMANDS as PATCHING
from .pictures import COMMANDS as PICTURES
from .sites import COMMANDS as SITES
from .stepping import COMMANDS as STEPPING
from .times import COMMANDS as TIMES
from .travel import COMMANDS as TRAVEL
from .workloads import COMMANDS as WORKLOADS


def commands() -> Mapping[str, Command]:
    """Every command by name, in the order `help` lists them."""
    found = (
        *(*FILES, *FILTERS, *CONDITIONS, *MODULES, *WORKLOADS, *BUFFERS, *SITES, *MEMORY),
        *(*STEPPING, *CPU, *TIMES, *PICTURES),
        *(*NMI, *PATCHING, *EXPERIMENTS, *SYSTEM, *TRAVEL, *HELP),
    )
    return MappingProxyType({command.name: command for command in found})
