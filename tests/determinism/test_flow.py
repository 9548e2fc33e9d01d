"""Every port gives the committed bytes, with this Python; `make determinism` tries others."""

from __future__ import annotations

import pytest

from dynftrace import arches

from .flow import committed, digest


@pytest.mark.parametrize("arch", arches.names())
def test_the_output_has_the_committed_hash(arch: str) -> None:
    # One CPU is a case of its own in the machine, not in a port: one port shows it.
    for cpus in (1, 2) if arch == arches.DEFAULT else (2,):
        assert digest(arch, cpus) == committed()[arch, cpus], "see tests/determinism/traces.txt"
