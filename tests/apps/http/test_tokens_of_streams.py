"""`?token=` on the streaming routes (reference: control-plane 3)."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.accounts.services.administrators import ensure_seed_admin
from apps.accounts.services.token_pairs import issue_tokens

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("platform_site.urls")]
EVENTS = "/api/v1/sandboxes/events"


def token() -> str:
    ensure_seed_admin("root@example.org", "Correct-Horse-1")
    return str(issue_tokens(User.objects.get(email="root@example.org")).token)


@pytest.mark.parametrize(("path", "status"), [(EVENTS, 200), ("/api/v1/sandboxes", 401)])
def test_a_stream_takes_the_token_of_its_query_and_no_other_route_does(path: str, status: int):
    assert APIClient().get(path, {"token": token()}).status_code == status


def test_a_wrong_token_opens_no_stream():
    assert APIClient().get(EVENTS, {"token": "nonsense"}).status_code == 401
