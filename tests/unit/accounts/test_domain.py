"""The pure rules of accounts."""

from __future__ import annotations

from datetime import timedelta

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.domain import tokens
from apps.accounts.domain.account_rules import (
    alternative_slug,
    is_email,
    normalized_email,
    password_errors,
    workspace_name,
    workspace_slug,
)
from apps.accounts.domain.errors import Unauthenticated
from apps.accounts.domain.tokens import hash_token, new_opaque_token
from apps.accounts.services.tickets import is_streaming_path

SECRET = "a-secret-for-tests-only-0123456789abcdef"


@given(st.text(max_size=300))
def test_no_text_but_a_token_is_a_token(text):
    """Invariant 33."""
    with pytest.raises(Unauthenticated):
        tokens.verify_access_token(text, [SECRET], leeway=timedelta(0))


@given(st.lists(st.text(alphabet="abcXYZ019-_=", max_size=80), min_size=3, max_size=3))
def test_three_parts_do_not_make_a_token(parts):
    """Invariant 33."""
    with pytest.raises(Unauthenticated):
        tokens.verify_access_token(".".join(parts), [SECRET], leeway=timedelta(0))


@given(st.text(max_size=60) | st.lists(st.text(max_size=9), min_size=3, max_size=3).map(".".join))
def test_no_text_but_a_token_has_the_form_of_one(text):
    assert not tokens.is_access_token(text)


def test_the_form_of_a_token_is_told_without_its_secret():
    assert tokens.is_access_token(tokens.sign_access_token({"sub": "x"}, "s" * 32))
    foreign = jwt.encode({"iss": "https://login.example"}, "s" * 32, algorithm="HS256")
    assert not tokens.is_access_token(foreign)
    assert not tokens.is_access_token("a." + "e" * 10_000 + ".c")


def test_a_key_id_tells_secrets_apart():
    assert tokens.key_id(SECRET) != tokens.key_id(SECRET + "x")
    assert len(tokens.key_id(SECRET)) == 8


@given(st.text(max_size=60))
def test_a_mail_is_one_at_sign_and_a_dot_after_it(text):
    if is_email(text):
        name, _, domain = text.partition("@")
        assert name
        assert "." in domain
        assert "@" not in domain
        assert not any(character.isspace() for character in text)


@pytest.mark.parametrize("text", ["a@b.c", "ada.l+x@sub.example.org", "ü@ü.de"])
def test_mails(text):
    assert is_email(text)
    assert normalized_email(f" {text.upper()}\n") == text.upper().lower()


@pytest.mark.parametrize("password", ["Abcdefg1", "Ä" + "b" * 1022 + "1", "Pass word 1"])
def test_good_passwords(password):
    assert password_errors(password) == []


@pytest.mark.parametrize(
    ("password", "faults"), [("", 4), ("Abcdef1", 1), ("A" + "b" * 1023 + "1", 1), ("abcdefgh", 2)]
)
def test_each_broken_rule_is_named(password, faults):
    assert len(password_errors(password)) == faults


def test_names_of_workspaces():
    assert workspace_name("Ada Lovelace") == "Ada's workspace"
    assert workspace_slug("Ada Lovelace") == "ada-lovelace"
    assert workspace_slug("!") == "workspace"
    assert alternative_slug("ada").startswith("ada-")
    assert len(alternative_slug("ada")) == len("ada-") + 6


@pytest.mark.parametrize(
    ("path", "streams"),
    [
        ("/api/v1/executions/run-1/events", True),
        ("/api/v1/executions/run-1/logs", True),
        ("/api/v1/engine/overview/stream", True),
        ("/api/v1/sandboxes/events", True),
        ("/ws/executions/run-1", True),
        ("/ws/shells/0190", True),
        ("/ws/shells/0190/x", False),
        ("/api/v1/executions/run-1/logs/download", False),
        ("/api/v1/executions//logs", False),
        ("/api/v1/executions/run-1/logs\n", False),
        ("/executions/run-1/logs", False),
    ],
)
def test_exactly_these_routes_stream(path, streams):
    assert is_streaming_path(path) is streams


def test_opaque_tokens_are_long_and_their_hashes_are_not_they():
    token = new_opaque_token()

    assert len(token) == 43
    assert hash_token(token) == hash_token(token)
    assert token not in hash_token(token)
