"""Clients of the REST views without accounts and tokens."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast
from uuid import uuid4

from rest_framework.test import APIClient

from apps.accounts.api import Principal, Role
from kernel import clock

PERSON = Principal(
    user_id=uuid4(),
    workspace_id=uuid4(),
    is_admin=False,
    full_name="Ada Lovelace",
    email="ada@example.org",
    token_jti="",
    expires_at=clock.now() + timedelta(days=1),
    role=Role.ADMIN,
)


def signed_in_client() -> APIClient:
    """Return a client whose requests are those of a user, who is not an administrator."""
    api_client = APIClient()
    api_client.force_authenticate(user=cast("Any", PERSON))
    return api_client
