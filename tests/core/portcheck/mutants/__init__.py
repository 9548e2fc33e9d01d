"""Broken ports: each has one mistake that a porter makes, and the check that catches it.

mutant.py     what a mutant is, and the ways to make one
entry_code.py mistakes in entry.S
verbs.py      mistakes in the verbs
facts.py      mistakes in the facts, the relocations and the stubs
"""

from .entry_code import ENTRY_CODE
from .facts import FACTS
from .mutant import Mutant
from .verbs import VERBS

MUTANTS: tuple[Mutant, ...] = (*ENTRY_CODE, *VERBS, *FACTS)
"""All mutants; their names are unique."""

__all__ = ["MUTANTS", "Mutant"]
