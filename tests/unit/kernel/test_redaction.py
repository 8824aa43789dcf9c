"""Secrets leave no text (invariant 19)."""

from __future__ import annotations

import base64
import html
import json
import re
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.redaction import MASK, Redactor, _forms

SECRET = 'p@ss "word"/+ä?>~'  # its two base64 forms differ


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="),
        quote(SECRET, safe=""),
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(SECRET))[3:-3],
        json.dumps(SECRET)[1:-1].replace("/", "\\/"),
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        quote(SECRET),
        quote_plus(SECRET),
        re.sub("%..", lambda found: found[0].lower(), quote(SECRET, safe="")),
        quote(SECRET, safe="!'()*~"),
        "".join(f"%{byte:02x}" for byte in SECRET.encode()),
        html.escape(SECRET),
        html.escape(SECRET, quote=False),
    ],
)
def test_every_form_is_masked(form: str) -> None:
    assert Redactor([SECRET]).mask(f"<{form}>") == "<***>"


@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
@pytest.mark.parametrize("after", ["", "\n", "tail"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_base64_of_a_text_around_a_secret_is_masked(before, after, encode) -> None:
    secret = "correct-horse-battery"

    masked = Redactor([secret]).mask(encode(f"{before}{secret}{after}".encode()).decode())

    assert MASK in masked
    shown = masked.replace(MASK, "")
    assert len(shown) <= len(before + after) * 4 // 3 + 8, "what is left comes of the text around"


@pytest.mark.parametrize("secret", ["hunter2", "p@ss w/rd", "ümlaut-secret", "a'b\"c\\d<e>&f"])
def test_no_cut_lets_any_form_through(secret: str) -> None:
    redactor = Redactor([secret])
    for form in _forms(secret):
        text = f"x{form}y"
        for cut in range(len(text)):
            head, rest = redactor.split(text[:cut])
            whole = head + redactor.mask(rest + text[cut:])
            assert form not in whole, (form, cut)


def test_lines_of_a_long_value_are_masked_alone() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADAN\n}\n-----END KEY-----"

    assert Redactor([key]).mask("MIIEvQIBADAN }") == "*** }"


def test_without_secrets_nothing_changes() -> None:
    redactor = Redactor(["", "  "])

    assert not redactor
    assert redactor.split("text") == ("text", "")


def test_what_may_begin_a_secret_waits_for_the_next_piece() -> None:
    redactor = Redactor(["hunter2"])

    assert redactor.split("my hunt") == ("my ", "hunt")
    assert redactor.mask("hunt" + "er2!") == "***!"


@given(st.lists(st.sampled_from(["hunter2", "hun", "ter2", "x", "h"]), max_size=8), st.data())
def test_no_cut_of_a_text_lets_a_secret_through(words: list[str], data: st.DataObject) -> None:
    redactor, text = Redactor(["hunter2"]), "".join(words)
    cut = data.draw(st.integers(0, len(text)))

    head, rest = redactor.split(text[:cut])
    tail = redactor.mask(rest + text[cut:])

    assert "hunter2" not in head + tail
    assert head + tail == redactor.mask(text)
