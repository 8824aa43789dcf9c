"""The audit trail (reference: control-plane 2; invariant 19: no token in an audit record)."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError

from apps.observability.api import metrics
from apps.operations.models import AuditRecord
from apps.operations.services import audit_trail
from apps.operations.services.audit_trail import Audited, recorded_path
from kernel import clock
from tests.apps.http.conftest import Ask, ask_and_leave

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"


def sample(**more: Any) -> Audited:
    facts: dict[str, Any] = {
        "time": clock.now(),
        "request_id": "r",
        "method": "GET",
        "route": "/api/v1/suites",
        "path": "/api/v1/suites",
        "status": 200,
        "duration_ms": 3,
        "remote_addr": "203.0.113.9",
    }
    return Audited(**facts | more)


def test_a_record_has_the_keys_of_the_reference(ask: Ask, audit_lines: list[str]) -> None:
    ask("GET", "/api/v1/things/7?q=secret", headers={"X-Request-Id": "r-1"})

    [record] = [json.loads(line) for line in audit_lines]
    assert record.pop("time").endswith("Z")
    assert isinstance(record.pop("durationMs"), int)
    assert record == {
        "type": "http.audit",
        "requestId": "r-1",
        "method": "GET",
        "route": "/api/v1/things/{thingId}",
        "path": "/api/v1/things/7",
        "status": 200,
        "remoteAddr": "203.0.113.9",
    }


def test_health_pages_and_files_are_not_audited(ask: Ask, audit_lines: list[str]) -> None:
    for path in ("/healthz", "/api/v1/system/healthz", "/api/v1/system/nope", "/nowhere"):
        ask("GET", path)

    assert audit_lines == []


def test_posts_to_sign_in_pages_unknown_paths_and_errors_are_audited(
    ask: Ask, audit_lines: list[str]
) -> None:
    ask("POST", "/sign-in")
    ask("GET", "/accounts/github/login/")
    ask("GET", "/accounts/nowhere")
    ask("GET", "/api/v1/fault")

    records = [json.loads(line) for line in audit_lines]
    assert [(entry["path"], entry["route"], entry["status"]) for entry in records] == [
        ("/sign-in", "/sign-in", 403),
        ("/accounts/github/login/", "/accounts/{provider}/login/", 404),
        ("/accounts/nowhere", "unmatched", 404),
        ("/api/v1/fault", "/api/v1/fault", 500),
    ]


def test_a_stream_is_audited_once_when_it_closes(ask: Ask, audit_lines: list[str]) -> None:
    ask("GET", "/api/v1/stream")

    assert [json.loads(line)["status"] for line in audit_lines] == [200]


def test_a_client_that_leaves_ends_its_stream_and_is_audited(
    settings: Any, audit_lines: list[str]
) -> None:
    settings.ROOT_URLCONF = "tests.apps.http.urlconf"
    gauge = {"http.method": "GET", "http.route": "/api/v1/endless"}

    sent = asyncio.run(ask_and_leave("/api/v1/endless", after_messages=2))

    assert sent[1]["body"] == b": connected\n\n"
    assert [json.loads(line)["status"] for line in audit_lines] == [200]
    assert metrics.value_of("http.server.active_requests", **gauge) == 0


def test_a_client_that_leaves_before_its_answer_is_audited_as_gone(
    settings: Any, audit_lines: list[str]
) -> None:
    settings.ROOT_URLCONF = "tests.apps.http.urlconf"
    gauge = {"http.method": "GET", "http.route": "/api/v1/slow"}

    asyncio.run(ask_and_leave("/api/v1/slow", after_messages=0))

    assert [json.loads(line)["status"] for line in audit_lines] == [499]
    assert metrics.value_of("http.server.active_requests", **gauge) == 0


@pytest.mark.django_db
def test_no_token_gets_into_a_record(ask: Ask, audit_lines: list[str]) -> None:
    bearer = {"Authorization": f"Bearer {JWT}"}
    for path in (f"/api/v1/stream?token={JWT}", f"/api/v1/nothing/{JWT}/here?ticket=t1cket"):
        ask("GET", path, headers=bearer)

    written = "\n".join(audit_lines)
    assert len(audit_lines) == 2
    for secret in (JWT, JWT.split(".")[1], "token", "t1cket", "Bearer"):
        assert secret not in written


def test_paths_are_stored_in_characters_every_store_takes() -> None:
    assert recorded_path("/api/\x00\ud800") == "/api/\ufffd?"
    assert len(recorded_path("/api/" + "x" * 9000)) == 2048


@pytest.mark.django_db
def test_rows_are_kept_90_days() -> None:
    audit_trail.store([sample(), sample(time=clock.now() - timedelta(days=91))])

    audit_trail.forget_old()

    [row] = AuditRecord.objects.all()
    assert (row.path, row.status, row.user_id) == ("/api/v1/suites", 200, "")


@pytest.mark.django_db(transaction=True)
def test_the_trail_stores_what_was_put_before_it_closes() -> None:
    trail = audit_trail.AuditTrail()

    for number in range(600):
        trail.put(sample(request_id=str(number)))
    trail.close()

    assert AuditRecord.objects.count() == 600


def test_what_the_store_refuses_counts_as_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_rows: object) -> None:
        raise DatabaseError("the disk is full")

    monkeypatch.setattr(AuditRecord.objects, "bulk_create", refuse)
    before = metrics.value_of("partita.audit.dropped")

    audit_trail.store([sample(), sample()])

    assert metrics.value_of("partita.audit.dropped") == before + 2


def test_a_full_queue_never_holds_up_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    trail = audit_trail.AuditTrail(capacity=1)
    monkeypatch.setattr(trail._writer, "_start", lambda: None)
    before = metrics.value_of("partita.audit.dropped")

    for _ in range(3):
        trail.put(sample())

    assert metrics.value_of("partita.audit.dropped") == before + 2
