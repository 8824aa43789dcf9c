"""The client in this process: its requests go to Django's views, without a server between."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client as WebClient

from apps.accounts.api import Principal
from apps.accounts.models import Membership, User, Workspace
from apps.accounts.services.administrators import ensure_seed_admin, replace_administrator_token
from apps.accounts.services.token_pairs import issue_tokens
from partita_client.command.halves import StoreCommand
from partita_client.command.program import run_words
from partita_client.transport import HttpAnswer, HttpTransport

EMAIL = "admin@partita.local"


def ask_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let requests of the client go to the views of this process, as the first administrator."""
    ensure_seed_admin(EMAIL, "Correct-Horse-1")
    _call_views(monkeypatch, replace_administrator_token(EMAIL, name="test"))


def ask_views_as(monkeypatch: pytest.MonkeyPatch, principal: Principal) -> None:
    """Let the client ask as the person of a principal, whose account is made if there is none."""
    user = User.objects.filter(pk=principal.user_id).first() or _account_of(principal)
    _call_views(monkeypatch, issue_tokens(user).token)


def _account_of(principal: Principal) -> User:
    workspace = Workspace.objects.create(
        id=principal.workspace_id, slug=f"w-{principal.workspace_id}", name="Ada's workspace"
    )
    user = User.objects.create(
        id=principal.user_id,
        workspace=workspace,
        email=principal.email,
        full_name=principal.full_name,
    )
    Membership.objects.create(user=user, workspace=workspace, role=principal.role)
    return user


def _call_views(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    """Let each request of the client go to the views; streams and downloads need a server."""
    web = WebClient(raise_request_exception=False)

    def send(
        transport: HttpTransport, method: str, path: str, query: Any, body: Any, headers: Any
    ) -> HttpAnswer:
        own = {"Authorization": f"Bearer {transport.token}"} if transport.token else {}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        content = b"" if body is None else content
        place = f"{path}?{urlencode(query, doseq=True)}" if query else path
        kind = headers.get("Content-Type", "application/json")
        answer = web.generic(method, place, content, content_type=kind, headers={**own, **headers})
        found = {name.lower(): value for name, value in answer.headers.items()}
        return HttpAnswer(status=answer.status_code, headers=found, body=answer.content)

    monkeypatch.setattr(HttpTransport, "_send_once", send)
    monkeypatch.setattr("partita_client.transport.pause_s", lambda _failures: 0.0)
    monkeypatch.setenv("PARTITA_URL", "http://localhost")
    monkeypatch.setenv("PARTITA_TOKEN", token)


class TypedWords:
    """Runs words as typed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.stderr = ""

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """Return exit code, stdout and stderr."""
        try:
            code = run_words(words)
        except SystemExit as ended:
            code = int(str(ended.code))
        assert not isinstance(code, StoreCommand), code
        said = self._capsys.readouterr()
        self.stderr = said.err
        return int(code), said.out, said.err

    def run(self, *words: str, code: int = 0) -> str:
        """Return stdout of a command that ends with the code."""
        ended, out, err = self(*words)
        assert ended == code, err
        return out

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.run(*words, "-o", "json", code=code))
