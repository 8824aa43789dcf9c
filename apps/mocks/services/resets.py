"""Resets of mock spaces, which every process that serves mocks takes in from the store."""

from __future__ import annotations

from collections.abc import Collection

from django.db.models import F

from apps.mocks.models import MockSpace
from apps.streams.api import unit_of_work
from kernel import clock
from mocks.model.spaces import SpaceName


@unit_of_work
def reset_space(name: SpaceName, *, surface_ids: Collection[str] = ()) -> None:
    """Empty the records and counters of a space, or of some surfaces in it.

    It is in force where `/mocks/ready` has answered since, elsewhere within 2 s.
    """
    for surface_id in surface_ids or ("",):
        rows = MockSpace.objects.filter(space=str(name), surface_id=surface_id)
        if not rows.update(resets=F("resets") + 1, updated_at=clock.now()):
            MockSpace.objects.create(
                space=str(name), surface_id=surface_id, execution_id=name.execution_id, resets=1
            )


@unit_of_work
def forget_spaces(execution_ids: Collection[str]) -> None:
    """Remove what the store knows of the spaces of runs that are removed."""
    MockSpace.objects.filter(execution_id__in=list(execution_ids)).delete()
