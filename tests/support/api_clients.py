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


def problem(answer: Any) -> tuple[int, str]:
    """Return the status and the code of an answer, which must be a problem."""
    assert answer["Content-Type"].startswith("application/problem+json"), answer.content
    return answer.status_code, answer.json()["code"]
