"""Tests that assemble: Keystone has no wheels for some machines."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

INSTALLED = find_spec("keystone") is not None
REASON = "keystone-engine is not installed"

needs_keystone = pytest.mark.skipif(not INSTALLED, reason=REASON)
