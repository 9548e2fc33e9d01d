"""A sample of the tries of `python -m tests.corruption`, on every port."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.core.ftrace.entry import GRAPH_CALL

from .world import World

STRIDE = 61
"""Every STRIDE-th bit is tried; prime, so that it meets all bits of a byte."""

COMMANDS = 6
"""Every COMMANDS-th command is tried, on each port another one first."""


@pytest.mark.parametrize("arch", arches.names())
def test_damage_is_refused_with_nothing_written_or_changes_nothing(arch: str) -> None:
    first = arches.names().index(arch) % COMMANDS
    world = World(arch)
    result = world.run(STRIDE, slice(first, None, COMMANDS))
    world.check_running()
    assert not result.failures
    assert result.refused


def test_a_guest_that_runs_through_the_damage_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World("arm64")
    slot = [place for place in world.places() if place.kind == GRAPH_CALL]
    monkeypatch.setattr(world, "places", lambda: slot)
    result = world.run(commands=slice(3, 4))
    world.check_running()
    assert not result.failures
    assert result.crashed[GRAPH_CALL]
