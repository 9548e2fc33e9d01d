"""Tests that assemble: Keystone has no wheels for some machines."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

needs_keystone = pytest.mark.skipif(
    find_spec("keystone") is None, reason="keystone-engine is not installed"
)
