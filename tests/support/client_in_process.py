"""The command of the client against the views of this process, without a server."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client as WebClient

from apps.accounts.api import Principal
from apps.accounts.models import Membership, User, Workspace
from apps.accounts.services.token_pairs import issue_tokens
from partita_client.command.program import StoreCommand, run_words
from partita_client.transport import HttpAnswer, HttpTransport


def call_views(patch: pytest.MonkeyPatch, token: str) -> None:
    """Let each request of the client go to the views; streams and downloads need a server."""
    web = WebClient(raise_request_exception=False)

    def send(
        transport: HttpTransport, method: str, path: str, query: Any, body: Any, headers: Any
    ) -> HttpAnswer:
        own = {"Authorization": f"Bearer {transport.token}"} if transport.token else {}
        content = b"" if body is None else json.dumps(body).encode()
        place = f"{path}?{urlencode(query, doseq=True)}" if query else path
        answer = web.generic(
            method, place, content, content_type="application/json", headers={**own, **headers}
        )
        found = {name.lower(): value for name, value in answer.headers.items()}
        return HttpAnswer(status=answer.status_code, headers=found, body=answer.content)

    patch.setattr(HttpTransport, "_send_once", send)
    patch.setattr("partita_client.transport.pause_s", lambda _failures: 0.0)
    patch.setenv("PARTITA_URL", "http://localhost")
    patch.setenv("PARTITA_TOKEN", token)


def call_views_as(patch: pytest.MonkeyPatch, principal: Principal) -> None:
    """Let the client ask as the person of a principal, whose account is made if there is none."""
    user = User.objects.filter(pk=principal.user_id).first() or _account_of(principal)
    call_views(patch, issue_tokens(user).token)


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


def typed_output(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Return the exit code, stdout and stderr of `partita` with these words."""
    try:
        code = run_words(words)
    except SystemExit as ended:
        code = int(str(ended.code))
    assert not isinstance(code, StoreCommand), code
    said = capsys.readouterr()
    return int(code), said.out, said.err
