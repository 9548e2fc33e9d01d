"""The tracefs shell."""

from .outcome import Outcome
from .parser import ShellSyntaxError, parse
from .shell import Shell

__all__ = ["Outcome", "Shell", "ShellSyntaxError", "parse"]
