"""What accounts tells the stages around it: who acts, and never with what."""

from __future__ import annotations

import contextvars

from django.test import RequestFactory

from apps.accounts.api import sign_out_session
from apps.accounts.sessions import SessionStore
from apps.observability.api import RequestContext
from apps.observability.domain.request_context import enter_request
from tests.apps.accounts.conftest import PASSWORD


def test_a_request_is_audited_with_its_user(ada, signed_up, audit):
    ada.me()

    (line,) = audit()
    assert f'"userId":"{signed_up["user"]["userId"]}"' in line.replace(": ", ":")
    assert f'"workspaceId":"{signed_up["workspace"]["workspaceId"]}"' in line.replace(": ", ":")


def test_a_sign_in_is_audited_with_who_signed_in(api, signed_up, audit):
    api.auth("sign-in", {"email": "ada@example.org", "password": PASSWORD})

    assert signed_up["user"]["userId"] in audit()[-1]


def test_a_form_that_signs_out_names_who_leaves(browser, signed_up):
    seen = RequestContext()
    request = RequestFactory().post("/sign-out")
    request.session = SessionStore(browser.cookies["partita_session"].value)

    def answer() -> None:
        enter_request(seen)
        sign_out_session(request)

    contextvars.copy_context().run(answer)

    assert seen.user_id == signed_up["user"]["userId"]


def test_no_credential_is_ever_audited(ada, api, audit):
    """Invariant 19."""
    ticket = ada.auth("stream-tickets").json()["ticket"]
    api.get("/api/v1/engine/overview/stream", {"token": ticket})
    api.get("/api/v1/engine/overview/stream", {"token": ada.token})
    api.auth("sign-in", {"email": "ada@example.org", "password": PASSWORD})

    text = "".join(audit())
    for secret in (ticket, ada.token, PASSWORD, "ada@example.org"):
        assert secret not in text
