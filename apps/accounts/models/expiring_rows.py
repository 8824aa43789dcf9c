"""Rows that count until a time, and how long the hashes are by which they are found."""

from __future__ import annotations

from typing import Final, TypeVar

from django.db import models

from kernel.clock import now

HASH_LENGTH: Final = 64  # of a SHA-256 in hex
Row = TypeVar("Row", bound=models.Model)


class ExpiringManager(models.Manager[Row]):
    """Of rows that count until `expires_at`; a purge deletes them later."""

    def alive(self) -> models.QuerySet[Row]:
        """Return the rows that have not expired."""
        return self.filter(expires_at__gt=now())
