"""No call of any address ends the process. For more calls: `python -m tests.support.wild 2000`."""

from __future__ import annotations

import pytest

from ..support.ports import FAMILIES
from ..support.wild import survey

CALLS = 15


@pytest.mark.parametrize("arch", FAMILIES)
def test_calls_of_random_addresses(arch: str) -> None:
    found = survey(arch, seed=3, count=CALLS)
    assert not found.deaths
    assert sum(found.outcomes.values()) == CALLS
    assert found.outcomes["GuestOops"] > CALLS / 2
