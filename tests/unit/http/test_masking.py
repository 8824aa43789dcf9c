"""Credentials are masked by their shape; what only looks a little like one stays readable."""

from __future__ import annotations

import logging
import sys

import pytest

from apps.observability.logs import WithoutCredentialsFilter, mask_credentials, without_query

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln"
OPAQUE = "aB-0123456789-0123456789-0123456789-012345_"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("GET /x?token=abc&since=3 HTTP/1.1", "GET /x?token=***&since=3 HTTP/1.1"),
        ("/cb?state=a%20b&code=c", "/cb?state=***&code=***"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("Cookie: a=b; partita_session=c", "Cookie: a=b; partita_session=***"),
        (f"/reset/{JWT}/x", "/reset/***/x"),
        (f"refresh {OPAQUE} used", "refresh *** used"),
        (f"/a/pat_{OPAQUE} and pci_{OPAQUE}", "/a/*** and ***"),
        ("{'query_string': b'ticket=abc'}", "{'query_string': b'ticket=***'}"),
        ("step a: exit code=1 state=running", "step a: exit code=1 state=running"),
        ("run-0123456789ab of suite shop", "run-0123456789ab of suite shop"),
    ],
)
def test_credentials_are_masked(text: str, masked: str):
    assert mask_credentials(text) == masked


def test_a_whole_query_goes_whatever_its_names_are():
    assert without_query("/x?%74oken=abc") == "/x"


def test_a_stack_trace_is_masked_for_every_formatter():
    try:
        raise ValueError("GET https://host/x?token=abc")  # noqa: TRY301
    except ValueError:
        record = logging.LogRecord(
            "any", logging.ERROR, "", 0, "failed: %s", ("/y?code=def",), sys.exc_info()
        )

    WithoutCredentialsFilter().filter(record)

    text = logging.Formatter().format(record)
    assert "failed: /y?code=***" in text
    assert "x?token=***" in text
    assert "abc" not in text
