from __future__ import annotations

import pytest

from kernel.errors import FieldError, InvalidInput, NotFound, PlatformError
from kernel.problems import PROBLEMS, problem_document, problem_headers, title


def test_every_code_has_one_status_and_a_title() -> None:
    assert all(400 <= status < 600 for status in PROBLEMS.values())
    assert title("csrf_failed") == "Csrf failed"


def test_the_document_repeats_its_detail_and_adds_members() -> None:
    error = PlatformError("lines are missing", code="log_gap", members={"nextSeq": 4})

    document = problem_document(error, instance="/x", request_id="r")

    assert document == {
        "type": "urn:partita:problem:log_gap",
        "title": "Log gap",
        "status": 409,
        "detail": "lines are missing",
        "instance": "/x",
        "code": "log_gap",
        "requestId": "r",
        "error": "lines are missing",
        "nextSeq": 4,
    }


def test_errors_say_only_what_is_known() -> None:
    error = InvalidInput("bad", errors=[FieldError(code="required", detail="is required", line=3)])

    [entry] = problem_document(error, instance="/", request_id="")["errors"]

    assert entry == {"pointer": "", "code": "required", "detail": "is required", "line": 3}


def test_an_unlisted_code_is_a_programming_error() -> None:
    with pytest.raises(KeyError):
        problem_document(PlatformError("x", code="made_up"), instance="/", request_id="")


def test_headers_go_with_the_status() -> None:
    assert problem_headers(PlatformError("x", code="token_expired")) == {
        "WWW-Authenticate": "Bearer"
    }
    assert problem_headers(PlatformError("x", code="rate_limited")) == {"Retry-After": "60"}
    assert problem_headers(PlatformError("x", code="queue_full", retry_after_s=9)) == {
        "Retry-After": "9"
    }
    assert problem_headers(NotFound("x")) == {}
