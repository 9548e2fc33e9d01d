"""Relocations of modules: those of ../x86_64/reloc.py."""

from __future__ import annotations

from ..x86_64.reloc import ABI

__all__ = ["ABI"]
