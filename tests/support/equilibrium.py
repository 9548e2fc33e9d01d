"""Kernels whose call sites are found as they run: as the checks of a port have it."""

from __future__ import annotations

from dynftrace.core.portcheck.equilibrium import reach, reach_with_modules

__all__ = ["reach", "reach_with_modules"]
