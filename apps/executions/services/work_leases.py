"""Leases on work that one process at a time does."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Final

from django.db.models import Q

from apps.executions.models import WorkLease
from apps.streams.api import unit_of_work
from kernel import clock

_HOLDER: Final = secrets.token_hex(8)  # this process


def ensure_lease_row(name: str) -> None:
    """Create the row of a work lease unless it exists."""
    if not WorkLease.objects.filter(name=name).exists():
        _create_lease_row(name)


@unit_of_work
def _create_lease_row(name: str) -> None:
    WorkLease.objects.get_or_create(name=name, defaults={"expires_at": clock.now()})


@unit_of_work
def take_lease(name: str, duration: timedelta) -> bool:
    """Take or renew a lease whose row exists; return False if another process holds it."""
    now = clock.now()
    mine = Q(holder=_HOLDER) | Q(expires_at__lte=now)
    taken = WorkLease.objects.filter(mine, name=name).update(
        holder=_HOLDER, expires_at=now + duration
    )
    return bool(taken)


@unit_of_work
def release_lease(name: str) -> None:
    """Release a lease of this process, so that another one can work at once."""
    WorkLease.objects.filter(name=name, holder=_HOLDER).update(expires_at=clock.now())


@unit_of_work
def put_off_work(name: str, duration: timedelta) -> None:
    """Have nobody do some work for a time, whoever holds its lease."""
    until = clock.now() + duration
    if not WorkLease.objects.filter(name=name).update(holder="", expires_at=until):
        WorkLease.objects.create(name=name, expires_at=until)


def is_put_off(name: str) -> bool:
    """Return whether `put_off_work` still counts."""
    return WorkLease.objects.filter(name=name, expires_at__gt=clock.now()).exists()
