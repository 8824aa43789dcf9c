"""The packages that users have marked as favorites."""

from __future__ import annotations

from django.db import models
from django.utils.timezone import now

from kernel.ids import new_uuid

PACKAGE_ID_LENGTH = 128


class Favorite(models.Model):
    """A user's mark on a package; it stays while the package is gone from the catalog."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    user = models.ForeignKey("accounts.User", on_delete=models.CASCADE, related_name="favorites")
    package_id = models.CharField(max_length=PACKAGE_ID_LENGTH)
    created_at = models.DateTimeField(default=now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "package_id"], name="favorite_once")]

    def __str__(self) -> str:
        return f"{self.package_id} of {self.user_id}"
