"""Principals: those of accounts in the store, and somebody whom no store knows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

from apps.accounts.api import Principal, Role
from apps.accounts.models import User
from kernel import clock


def principal_of(user: User, **facts: Any) -> Principal:
    """Return an administrator of the workspace of `user`, for an hour; `facts` are other fields."""
    known: dict[str, Any] = {
        "user_id": user.pk,
        "workspace_id": user.workspace_id,
        "is_admin": user.is_admin,
        "full_name": user.full_name,
        "email": user.email,
        "expires_at": clock.now() + timedelta(hours=1),
        "role": Role.ADMIN,
    }
    return Principal(**known | facts)


def somebody(**facts: Any) -> Principal:
    """Return Ada, who administers a workspace of her own, for an hour; `facts` are other fields."""
    known: dict[str, Any] = {
        "user_id": uuid4(),
        "workspace_id": uuid4(),
        "is_admin": False,
        "full_name": "Ada Lovelace",
        "email": "ada@example.org",
        "expires_at": clock.now() + timedelta(hours=1),
        "role": Role.ADMIN,
    }
    return Principal(**known | facts)
