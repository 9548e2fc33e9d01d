"""Selections of ports."""

from __future__ import annotations

FAMILIES = ("x86_64", "ppc64", "mips", "arm64")
"""One port of each family, for long tests of code that the ports of a family share."""
