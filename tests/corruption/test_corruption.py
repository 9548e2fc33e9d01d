"""A sample of the tries of `python -m tests.corruption`, on every port."""

from __future__ import annotations

import pytest

from dynftrace import arches

from .world import World

STRIDE = 61
"""Every STRIDE-th bit is tried; prime, so that it meets all bits of a byte."""

COMMANDS = 6
"""Every COMMANDS-th command is tried, on each port another one first."""


@pytest.mark.parametrize("arch", arches.names())
def test_damage_is_refused_with_nothing_written_or_changes_nothing(arch: str) -> None:
    first = arches.names().index(arch) % COMMANDS
    result = World(arch).run(STRIDE, slice(first, None, COMMANDS))
    assert not result.failures
    assert result.refused
