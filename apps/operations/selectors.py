"""Reads of the platform's own rows, and readiness."""

from __future__ import annotations

from functools import lru_cache

from apps.operations.models import Installation


@lru_cache(maxsize=1)
def installation_id() -> str:
    """The identity of this platform: a UUID, made at the first call and kept in the store."""
    row, _made = Installation.objects.get_or_create(slot="installation")
    return str(row.id)
