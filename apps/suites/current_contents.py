"""Suites as their files are now, without a look at all the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from apps.suites.domain.definition import Suite
from apps.suites.evaluation.library import library
from surfaces import Surface


def current_suites(suite_ids: Sequence[str]) -> Mapping[str, Suite]:
    """Return those of the suites that exist, read again if their files have changed."""
    return library.shelf.current(suite_ids)


def hydrated_surfaces(suite: Suite) -> tuple[Surface, ...]:
    """Return the API surfaces of a suite; wait until they are made."""
    return library.hydrate(suite).surfaces
