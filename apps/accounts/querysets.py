"""Named queries of accounts."""

from __future__ import annotations

from typing import TypeVar

from django.db.models import Manager, Model, QuerySet

from kernel.clock import now

Row = TypeVar("Row", bound=Model)


class ExpiringManager(Manager[Row]):
    """Of rows that count until `expires_at`; a purge deletes them later."""

    def alive(self) -> QuerySet[Row]:
        """Return the rows that have not expired."""
        return self.filter(expires_at__gt=now())
