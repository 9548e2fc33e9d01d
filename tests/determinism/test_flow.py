"""Every port gives the committed bytes, with this Python; `make determinism` tries others."""

from __future__ import annotations

import pytest

from dynftrace import arches

from .flow import committed, digest


@pytest.mark.parametrize("arch", arches.names())
def test_the_output_has_the_committed_hash(arch: str) -> None:
    hashes = committed()
    for cpus in (1, 2):
        assert digest(arch, cpus) == hashes[arch, cpus], "see tests/determinism/traces.txt"
