"""Fixtures of pytest for projects that test with dynftrace; docs/testing.md describes them."""

from dynftrace.tui.pictures.pytest_plugin import (
    Pictures,
    ShellCommands,
    dynftrace_picture,
    dynftrace_session,
    dynftrace_shell,
    open_machine,
    pytest_addoption,
)

__all__ = [
    "Pictures",
    "ShellCommands",
    "dynftrace_picture",
    "dynftrace_session",
    "dynftrace_shell",
    "open_machine",
    "pytest_addoption",
]
