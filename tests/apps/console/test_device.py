"""The page on which a person confirms the sign-in of a program by its code."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client

from apps.accounts.models import ApiToken, Membership
from apps.accounts.selectors import clear_cached

WORDS = "partita 1.2 on ann-laptop"
PERSON = {"fullName": "Ada", "email": "ada@example.org", "password": "Str0ngEnough"}


@pytest.fixture
def ada(db: None) -> Client:
    client = Client()
    assert client.post("/sign-up", PERSON).status_code == 302
    return client


def begun(client: str = WORDS, address: str = "127.0.0.1") -> Any:
    answer = Client(REMOTE_ADDR=address).post(
        "/api/v1/auth/device", {"client": client}, content_type="application/json"
    )
    assert answer.status_code == 200, answer.content
    return answer.json()


def text_of(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def test_it_says_who_asks_from_where_and_since_when(ada: Client):
    codes = begun()

    page = text_of(ada.get("/device", {"code": codes["userCode"].lower().replace("-", " ")}))

    for said in (codes["userCode"], WORDS, "127.0.0.1", "just now", "as you, Ada"):
        assert said in page
    assert "not this browser's address" not in page
    assert '<option value="run" selected>' in page
    assert '<option value="30" selected>30 days' in page


def test_it_says_when_the_program_is_elsewhere(ada: Client):
    codes = begun(address="198.51.100.4")

    page = text_of(ada.get("/device", {"code": codes["userCode"]}))

    assert "198.51.100.4" in page
    assert "not this browser's address" in page


def test_who_is_not_signed_in_comes_back_to_the_code(ada: Client):
    codes = begun()
    path = urlsplit(codes["verificationUriComplete"])
    stranger = Client()

    to_sign_in = stranger.get(f"{path.path}?{path.query}")
    way_back = parse_qs(urlsplit(to_sign_in["Location"]).query)["next"][0]
    signed_in = stranger.post("/sign-in", {**PERSON, "next": way_back})

    assert signed_in["Location"] == f"/device?code={codes['userCode']}"
    assert WORDS in text_of(stranger.get(signed_in["Location"]))


def test_approving_says_what_follows_and_the_account_shows_the_token(ada: Client):
    codes = begun()

    form = {"code": codes["userCode"], "scope": "read", "days": "7"}
    page = text_of(ada.post("/device/approve", form))
    Client().post(
        "/api/v1/auth/device/token",
        {"deviceCode": codes["deviceCode"]},
        content_type="application/json",
    )

    assert f"“{WORDS}” will be signed in as Ada within a few seconds, for 7 days." in page
    account = text_of(ada.get("/account"))
    assert f'<strong>{WORDS}</strong> <span class="chip">read</span>' in account
    assert "never used" in account


def test_denying_says_so(ada: Client):
    codes = begun()

    page = text_of(ada.post("/device/deny", {"code": codes["userCode"]}))

    assert f"“{WORDS}” did not get a token." in page
    assert not ApiToken.objects.exists()


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("BBBB-BBBB", 404, "This code is not valid: it was used, has expired or is misspelled"),
        ("hello", 400, "The code has eight letters, such as WDJB-MJHT"),
    ],
)
def test_a_wrong_code_stays_in_its_field_and_says_what_to_do(
    ada: Client, code: str, status: int, said: str
):
    for answer in (
        ada.get("/device", {"code": code}),
        ada.post("/device/approve", {"code": code, "scope": "run", "days": "30"}),
        ada.post("/device/deny", {"code": code}),
    ):
        assert answer.status_code == status
        assert said in text_of(answer)
        assert f'value="{code}"' in text_of(answer)


def test_hostile_words_are_text(ada: Client):
    codes = begun('<img src=x onerror="alert(1)">')

    page = text_of(ada.get("/device", {"code": codes["userCode"]}))

    assert "<img" not in page
    assert "&lt;img src=x" in page


def test_a_viewer_is_offered_to_read_only(ada: Client):
    member = Membership.objects.get()
    Membership.objects.update(role="viewer")
    clear_cached(member.user_id)

    page = text_of(ada.get("/device", {"code": begun()["userCode"]}))

    assert '<option value="read" selected>' in page
    assert 'value="run"' not in page
    assert 'value="admin"' not in page
