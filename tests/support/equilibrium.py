"""Kernels whose call sites are found as they run; shared with the port checks."""

from __future__ import annotations

from dynftrace.core.portcheck.equilibrium import reach, reach_with_modules

__all__ = ["reach", "reach_with_modules"]
