"""Reads configuration in CUE: a subset of the language, evaluated here and within fixed limits."""

from __future__ import annotations

from cue.reading import CueError, evaluate
from cue.vetting import Vetted, vet, vetted

__all__ = ["CueError", "Vetted", "evaluate", "vet", "vetted"]
