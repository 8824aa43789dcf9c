"""Reset of a password by mail: one live link, the same answer for any address."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.core.mail import EmailMessage
from django.db import close_old_connections, connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.domain.errors import ResetTokenInvalid
from apps.accounts.models import PasswordReset, UiSession, User
from apps.accounts.services import password_reset
from apps.accounts.services.password_reset import MAIL_TASK, mail_reset_link
from apps.operations.api import celery_application
from kernel.clock import now
from tests.apps.accounts.conftest import PASSWORD, Api

NEW = "Another-Horse-2"


@pytest.fixture(autouse=True)
def _mail(settings):
    settings.EMAIL_HOST = "mail.example.org"
    settings.DEFAULT_FROM_EMAIL = "partita@example.org"
    settings.PUBLIC_API_URL = "https://partita.example.org"


@pytest.fixture(autouse=True)
def queue(monkeypatch) -> list[tuple[str, list[str]]]:
    """What was sent to the broker."""
    sent: list[tuple[str, list[str]]] = []

    def send(name, args, **_options):
        sent.append((name, args))

    monkeypatch.setattr(celery_application(), "send_task", send)
    return sent


@pytest.fixture
def forget(api, queue, mailoutbox):
    """Ask for a link, have the task run, and return the token that was mailed."""

    def ask(email: str = "ada@example.org") -> str:
        answer = api.auth("forgot-password", {"email": email})
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        for name, (user_id,) in queue:
            assert name == MAIL_TASK
            mail_reset_link(UUID(user_id))
        queue.clear()
        return token_of(mailoutbox[-1])

    return ask


def token_of(mail: EmailMessage) -> str:
    link = r"^https://partita.example.org/reset-password[?]token=(\S{43})$"
    found = re.search(link, str(mail.body), re.MULTILINE)
    assert found, mail.body
    return found[1]


def sign_in(password: str) -> int:
    caller = Api(address=f"203.0.113.{uuid4().int % 200}")
    answer = caller.auth("sign-in", {"email": "ada@example.org", "password": password})
    return int(answer.status_code)


def test_the_link_sets_a_new_password_and_proves_the_address(signed_up, api, forget, mailoutbox):
    token = forget()
    (mail,) = mailoutbox
    assert mail.to == ["ada@example.org"]
    assert mail.from_email == "partita@example.org"
    assert "Ada Lovelace" in mail.body

    answer = api.auth("reset-password", {"token": token, "password": NEW})

    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert (sign_in(PASSWORD), sign_in(NEW)) == (401, 200)
    assert User.objects.get().email_verified_at is not None


def test_a_reset_ends_every_token_and_session(ada, browser, api, forget):
    assert ada.me().status_code == 200
    assert UiSession.objects.exists()

    api.auth("reset-password", {"token": forget(), "password": NEW})

    assert ada.me().status_code == 401
    assert not UiSession.objects.exists()
    assert browser.get("/page/whoami").json() == {"email": None}


def test_the_link_works_once(signed_up, api, forget):
    token = forget()
    api.auth("reset-password", {"token": token, "password": NEW})

    again = api.auth("reset-password", {"token": token, "password": "Third-Horse-3"})

    assert (again.status_code, again.json()["code"]) == (400, "reset_token_invalid")
    assert sign_in(NEW) == 200


def test_a_newer_link_replaces_the_older_one(signed_up, api, forget):
    older, newer = forget(), forget()

    refused = api.auth("reset-password", {"token": older, "password": NEW})
    taken = api.auth("reset-password", {"token": newer, "password": NEW})

    assert (refused.json()["code"], taken.status_code) == ("reset_token_invalid", 200)


def test_the_link_ends_after_15_minutes(signed_up, api, forget, monkeypatch):
    token = forget()
    monkeypatch.setattr(password_reset, "now", lambda: now() + timedelta(minutes=15, seconds=1))

    late = api.auth("reset-password", {"token": token, "password": NEW})

    assert late.json()["code"] == "reset_token_invalid"
    assert sign_in(PASSWORD) == 200


def test_a_weak_password_leaves_the_link_usable(signed_up, api, forget):
    token = forget()

    weak = api.auth("reset-password", {"token": token, "password": "weak"})

    assert (weak.status_code, weak.json()["code"]) == (400, "weak_password")
    assert api.auth("reset-password", {"token": token, "password": NEW}).status_code == 200


def test_the_store_holds_no_token(signed_up, forget):
    token = forget()
    row = PasswordReset.objects.values().get()
    assert token not in str(row)


@pytest.mark.parametrize("email", ["nobody@example.org", "x", "a\nb@example.org"])
def test_any_address_gets_the_same_answer_and_no_mail(signed_up, api, queue, mailoutbox, email):
    known = api.auth("forgot-password", {"email": "ada@example.org"})
    unknown = api.auth("forgot-password", {"email": email})

    assert (known.status_code, known.content) == (unknown.status_code, unknown.content)
    (_, (_ada,)), (_, (stranger,)) = queue
    mail_reset_link(UUID(stranger))
    assert mailoutbox == []


def test_an_unknown_address_costs_the_same_queries(signed_up, api, queue):
    api.auth("forgot-password", {"email": "first@example.org"})  # warm
    counts = []
    for email in ("ada@example.org", "nobody@example.org"):
        with CaptureQueriesContext(connection) as seen:
            api.auth("forgot-password", {"email": email})
        counts.append([query["sql"].partition(" ")[0] for query in seen])
    assert counts[0] == counts[1]
    assert len(queue) == 3


def test_a_disabled_account_gets_no_mail_and_its_link_dies(ada_row, api, forget, mailoutbox):
    token = forget()
    User.objects.update(is_active=False)

    mail_reset_link(ada_row.id)

    assert len(mailoutbox) == 1
    refused = api.auth("reset-password", {"token": token, "password": NEW})
    assert refused.json()["code"] == "reset_token_invalid"


def test_without_a_mail_server_the_answer_says_which_variable_is_missing(signed_up, api, settings):
    settings.EMAIL_HOST = ""

    answer = api.auth("forgot-password", {"email": "ada@example.org"})

    assert (answer.status_code, answer.json()["code"]) == (503, "mail_unavailable")
    assert "EMAIL_URL" in answer.json()["detail"]
    assert api.get("/api/v1/auth/config").json()["passwordResetEnabled"] is False


def test_the_config_says_that_passwords_can_be_reset(api, settings):
    assert api.get("/api/v1/auth/config").json()["passwordResetEnabled"] is True
    settings.AUTH_PASSWORD_LOGIN_ENABLED = False
    assert api.get("/api/v1/auth/config").json()["passwordResetEnabled"] is False
    refused = api.auth("forgot-password", {"email": "ada@example.org"})
    assert (refused.status_code, refused.json()["code"]) == (403, "password_auth_disabled")


def test_a_broker_that_is_away_is_told(signed_up, api, monkeypatch):
    def fail(*_args, **_options):
        raise ConnectionError("refused")

    monkeypatch.setattr(celery_application(), "send_task", fail)

    answer = api.auth("forgot-password", {"email": "ada@example.org"})

    assert (answer.status_code, answer.json()["code"]) == (503, "mail_unavailable")


def test_both_routes_are_limited_together(signed_up, api):
    for _ in range(3):
        assert api.auth("forgot-password", {"email": "ada@example.org"}).status_code == 200
    for _ in range(2):
        api.auth("reset-password", {"token": "x", "password": NEW})
    assert api.auth("forgot-password", {"email": "ada@example.org"}).status_code == 429


def test_nobody_is_flooded_with_mail_from_however_many_addresses(signed_up, queue):
    answers = [
        Api(address=f"203.0.113.{n}").auth("forgot-password", {"email": " Ada@example.org"})
        for n in range(6)
    ]
    assert [answer.status_code for answer in answers] == [200] * 6
    assert len(queue) == 3


@pytest.mark.django_db(transaction=True)
def test_of_two_uses_at_once_one_wins(signed_up, forget):
    token = forget()

    def use(password: str) -> str:
        try:
            password_reset.reset_password(token, password)
        except ResetTokenInvalid:
            return ""
        finally:
            close_old_connections()
            connection.close()
        return password

    with ThreadPoolExecutor(2) as threads:
        won = [word for word in threads.map(use, [NEW, "Third-Horse-3"]) if word]

    assert len(won) == 1
    assert sign_in(won[0]) == 200
