"""What the store knows of mock spaces: how often each was reset."""

from __future__ import annotations

from django.db import models

from kernel import clock
from kernel.ids import new_uuid


class MockSpace(models.Model):
    """The number of resets of a surface in a space; `surface_id` is empty for the whole space.

    Processes compare it with the number that they applied to the state that they keep.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    space = models.CharField(max_length=720)
    surface_id = models.CharField(max_length=128, blank=True)
    execution_id = models.CharField(max_length=64, blank=True, db_index=True)
    resets = models.PositiveBigIntegerField(default=0)
    updated_at = models.DateTimeField(default=clock.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["space", "surface_id"], name="mocks_space_surface"),
        ]

    def __str__(self) -> str:
        return f"{self.space} {self.surface_id} {self.resets}"
