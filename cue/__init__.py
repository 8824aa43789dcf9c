"""Reads configuration in CUE: a subset of the language, evaluated here and within fixed limits."""

from __future__ import annotations

from cue.declarations import Declaration, read_declaration
from cue.export import CueError, evaluate
from cue.validation import Vetted, vet, vet_with_attributes

__all__ = [
    "CueError",
    "Declaration",
    "Vetted",
    "evaluate",
    "read_declaration",
    "vet",
    "vet_with_attributes",
]
