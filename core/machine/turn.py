"""What is left of a vCPU's slice, so that one that was stopped in can be gone on with."""

from __future__ import annotations

from dataclasses import dataclass

from .vcpu import Vcpu

STOPS_A_TURN = 500
"""Calls and traps the machine answers in one turn, so that `stop` is never far."""


@dataclass(slots=True)
class Turn:
    """One vCPU's slice, or the rest of it."""

    vcpu: Vcpu
    deadline: int
    """Virtual ns of its end."""
    stops: int = STOPS_A_TURN
    """Calls and traps the machine still answers in it."""
