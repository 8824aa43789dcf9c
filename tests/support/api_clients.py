"""Clients of the REST views without accounts and tokens."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

from rest_framework.test import APIClient

from kernel import clock
from tests.support.people import somebody

PERSON = somebody(expires_at=clock.now() + timedelta(days=1))


def signed_in_client() -> APIClient:
    """Return a client whose requests are those of a user, who is not an administrator."""
    api_client = APIClient()
    api_client.force_authenticate(user=cast("Any", PERSON))
    return api_client
