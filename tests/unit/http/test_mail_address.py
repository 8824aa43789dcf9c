"""EMAIL_URL as the mail server of Django's settings."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.operations.domain.mail import MailServer
from platform_site.settings.env import mail_address


def read(monkeypatch: pytest.MonkeyPatch, value: str) -> MailServer:
    monkeypatch.setenv("EMAIL_URL", value)
    return mail_address("EMAIL_URL")


def test_without_it_there_is_no_server(monkeypatch):
    assert read(monkeypatch, "").host == ""


@pytest.mark.parametrize(
    ("url", "port", "tls", "ssl"),
    [
        ("smtp://mail/?from=p@x.org", 25, False, False),
        ("smtp+tls://mail/?from=p@x.org", 587, True, False),
        ("smtps://mail/?from=p@x.org", 465, False, True),
        ("smtp+tls://mail:2525?from=p@x.org", 2525, True, False),
    ],
)
def test_the_scheme_says_how_the_connection_is_guarded(monkeypatch, url, port, tls, ssl):
    found = read(monkeypatch, url)
    assert (found.host, found.port, found.use_tls, found.use_ssl) == ("mail", port, tls, ssl)
    assert found.sender == "p@x.org"


def test_name_and_password_may_have_any_character(monkeypatch):
    found = read(monkeypatch, "smtps://a%40b.org:p%40%2F%3A%23@mail/?from=p@x.org")
    assert (found.username, found.password) == ("a@b.org", "p@/:#")


@pytest.mark.parametrize(
    "url",
    [
        "mail.example.org",
        "http://mail/?from=p@x.org",
        "smtp://:secret@/?from=p@x.org",
        "smtp://u:secret@mail",
        "smtp://u:secret@mail/?from=nobody",
        "smtp://u:secret@mail:99999/?from=p@x.org",
    ],
)
def test_what_cannot_be_meant_stops_the_start_and_shows_no_password(monkeypatch, url):
    with pytest.raises(ImproperlyConfigured, match=r"^EMAIL_URL: expected smtp://") as caught:
        read(monkeypatch, url)
    assert "secret" not in str(caught.value)
