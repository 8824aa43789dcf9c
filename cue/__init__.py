"""Reads configuration in CUE: a subset of the language, evaluated here and within fixed limits."""

from __future__ import annotations

from cue.declarations import Declaration, declared
from cue.export import CueError, evaluate
from cue.validation import Vetted, vet, vetted

__all__ = ["CueError", "Declaration", "Vetted", "declared", "evaluate", "vet", "vetted"]
