"""The requests of programs that sign in by a code which a person confirms."""

from __future__ import annotations

from django.db import models

from apps.accounts.domain.device_codes import FIRST_INTERVAL_S, MAX_CLIENT
from apps.accounts.models.expiring_rows import HASH_LENGTH, ExpiringManager
from kernel.clock import now
from kernel.ids import new_uuid


class DeviceAuthorization(models.Model):
    """A program that asks for an API token, and what a person decided. To delete the row ends it.

    The token is made when the program fetches it, as long as the credential of who approved lives.
    """

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    device_code_hash = models.CharField(max_length=HASH_LENGTH, unique=True)
    user_code = models.CharField(max_length=8, unique=True)
    client = models.CharField(max_length=MAX_CLIENT)  # what the program says of itself
    address = models.CharField(max_length=64)  # from where it asked
    created_at = models.DateTimeField(default=now)
    expires_at = models.DateTimeField(db_index=True)
    polled_at = models.DateTimeField(null=True)
    interval_s = models.PositiveSmallIntegerField(default=FIRST_INTERVAL_S)
    decision = models.CharField(max_length=8)  # a DeviceDecision
    user = models.ForeignKey("accounts.User", on_delete=models.CASCADE, null=True, related_name="+")
    token_jti = models.CharField(max_length=64, default="")
    session_hash = models.CharField(max_length=HASH_LENGTH, default="")
    scope = models.CharField(max_length=8, default="")
    days = models.PositiveSmallIntegerField(default=0)

    objects = ExpiringManager()

    def __str__(self) -> str:
        return str(self.id)
