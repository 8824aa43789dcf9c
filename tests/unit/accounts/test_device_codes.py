"""The codes of a sign-in by a device code (RFC 8628), and how often programs may ask."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from apps.accounts.domain.device_codes import (
    client_words,
    new_user_code,
    pending_refusal,
    read_user_code,
    shown_user_code,
)
from kernel.errors import InvalidInput

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def test_a_new_code_spells_no_word_and_has_nothing_that_looks_like_another():
    letters = "".join(new_user_code() for _ in range(500))

    assert len(letters) == 4000
    assert not set(letters) & set("AEIOUY0123456789")
    assert len({new_user_code() for _ in range(500)}) == 500


@pytest.mark.parametrize("typed", ["WDJB-MJHT", "wdjbmjht", " wdjb mjht ", "w-d-j-b–m.j_h t"])
def test_a_code_is_read_whatever_its_case_and_dashes(typed: str):
    assert shown_user_code(read_user_code(typed)) == "WDJB-MJHT"


@pytest.mark.parametrize("typed", ["", "WDJB", "WDJB-MJHTX", "ADJB-MJHT", "WDJB-MJH0", "x" * 9999])
def test_what_cannot_be_a_code_is_refused_with_what_one_looks_like(typed: str):
    with pytest.raises(InvalidInput, match="eight letters, such as WDJB-MJHT"):
        read_user_code(typed)


def test_the_words_of_a_program_are_trimmed():
    assert client_words(" partita 1.2 on ann-laptop ") == "partita 1.2 on ann-laptop"


@pytest.mark.parametrize(
    "words", ["", "  ", "x" * 81, "two\nlines", "a\x00b", "a\u202etxet", "a\u200bb"]
)
def test_words_that_hide_something_are_refused(words: str):
    with pytest.raises(InvalidInput, match="printable characters") as caught:
        client_words(words)
    assert caught.value.errors[0].pointer == "/client"


@pytest.mark.parametrize(
    ("since_s", "interval_s", "code", "next_s"),
    [
        (None, 5, "authorization_pending", 5),
        (5.0, 5, "authorization_pending", 5),
        (4.2, 5, "authorization_pending", 5),  # both left in time, one was slow on its way
        (3.9, 5, "slow_down", 10),
        (0.0, 10, "slow_down", 15),
        (0.0, 60, "slow_down", 60),
        (10.0, 10, "authorization_pending", 10),
    ],
)
def test_who_asks_too_soon_waits_longer_from_then_on(
    since_s: float | None, interval_s: int, code: str, next_s: int
):
    polled_at = None if since_s is None else NOW - timedelta(seconds=since_s)

    refusal = pending_refusal(polled_at, interval_s, NOW)

    assert (refusal.problem_code, refusal.members["interval"]) == (code, next_s)
