from __future__ import annotations

import pytest

from apps.http.responses import is_not_modified, is_precondition_met, strong_etag
from apps.observability.api import metrics
from apps.operations.services.audit_trail import is_audited


def test_equal_documents_have_equal_strong_tags() -> None:
    tag = strong_etag({"a": 1, "b": ["é"]})

    assert tag == strong_etag({"b": ["é"], "a": 1})
    assert tag != strong_etag({"a": 1, "b": ["e"]})
    assert tag.startswith('"')


def test_reads_compare_weakly_and_writes_strongly() -> None:
    assert is_not_modified('"t"', 'W/"t"')
    assert is_not_modified('"t"', "*")
    assert not is_not_modified('"t"', '"other"')
    assert is_precondition_met('"t"', "")
    assert is_precondition_met('"t"', '"x", "t"')
    assert not is_precondition_met('"t"', 'W/"t"')


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/api/v1/suites", True),
        ("GET", "/accounts/github/login/", True),
        ("POST", "/sign-in", True),
        ("GET", "/sign-in", False),
        ("GET", "/api/v1/system/readyz", False),
        ("GET", "/healthz", False),
        ("POST", "/mocks/rest/shop/api/x", False),
    ],
)
def test_what_is_audited(method: str, path: str, expected: bool) -> None:
    assert is_audited(method, path) is expected


def test_no_metric_carries_an_id() -> None:
    attributes = {name for _kind, names, _help in metrics.METRICS.values() for name in names}

    assert not {name for name in attributes if name.endswith(("id", "user", "run", "agent"))}


def test_an_unknown_metric_is_a_programming_error() -> None:
    with pytest.raises(KeyError):
        metrics.count("partita.made.up")
