from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.test import Client

from apps.accounts import selectors
from apps.accounts.models import User
from apps.accounts.services.administrators import ensure_seed_admin

PASSWORD = "Correct-Horse-1"
ADDRESS = "203.0.113.7"


@pytest.fixture(autouse=True)
def _house(settings, db) -> None:
    settings.ROOT_URLCONF = "tests.apps.accounts.urlconf"
    selectors._cache.clear()


@dataclass
class Api:
    """A caller of the JSON routes: one address, one token, a cookie jar."""

    token: str = ""
    address: str = ADDRESS
    client: Client = field(default_factory=lambda: Client(enforce_csrf_checks=True))

    def get(self, path: str, query: dict[str, str] | None = None, **headers: str) -> Any:
        return self.client.get(
            path, query or {}, REMOTE_ADDR=self.address, headers=self._headers(headers)
        )

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.client.post(
            path,
            {} if body is None else body,
            content_type="application/json",
            REMOTE_ADDR=self.address,
            headers=self._headers(headers),
        )

    def auth(self, route: str, body: Any = None, **headers: str) -> Any:
        return self.post(f"/api/v1/auth/{route}", body, **headers)

    def me(self) -> Any:
        return self.get("/api/v1/auth/me")

    def _headers(self, headers: dict[str, str]) -> dict[str, str]:
        bearer = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return bearer | headers


@pytest.fixture
def api() -> Api:
    """Nobody yet."""
    return Api()


@pytest.fixture
def audit(caplog):
    """A function that returns the lines of the audit so far."""
    logger = logging.getLogger("partita.audit")
    logger.addHandler(caplog.handler)
    yield lambda: [record.getMessage() for record in caplog.records if record.name == logger.name]
    logger.removeHandler(caplog.handler)


@pytest.fixture
def signed_up(api):
    """The answer to Ada's sign-up."""
    answer = api.auth(
        "sign-up",
        {"fullName": "Ada Lovelace", "email": "ada@example.org", "password": PASSWORD},
    )
    assert answer.status_code == 201, answer.content
    return answer.json()


@pytest.fixture
def ada(signed_up) -> Api:
    """A member, by access token."""
    return Api(token=signed_up["token"])


@pytest.fixture
def ada_row(signed_up) -> User:
    return User.objects.get(email="ada@example.org")


@pytest.fixture
def browser(signed_up) -> Client:
    """Ada's browser: a session cookie and a CSRF token, no access token."""
    client = Client(enforce_csrf_checks=True)
    form = {"email": "ada@example.org", "password": PASSWORD}
    answer = client.post("/page/sign-in", form, REMOTE_ADDR="203.0.113.8")
    assert answer.status_code == 200, answer.content
    return client


@pytest.fixture
def admin() -> Api:
    ensure_seed_admin("root@example.org", "swordfish")
    answer = Api(address="203.0.113.9").auth(
        "sign-in", {"email": "root@example.org", "password": "swordfish"}
    )
    assert answer.status_code == 200, answer.content
    return Api(token=answer.json()["token"])
