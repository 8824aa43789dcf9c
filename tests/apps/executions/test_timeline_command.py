"""The timeline of stored runs, the line of the log at an instant, and `run timeline`."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from apps.executions import api
from apps.executions.selectors.logs import first_line_at, log_pages
from apps.executions.services.cancellations import cancel
from kernel import clock
from tests.apps.executions.runs import Run, Worker, booted_run, node, queued_run
from tests.apps.executions.timepiece import Timepiece, slow_run, write_lines
from tests.support.client_views import TypedWords, ask_views_as
from tests.support.people import somebody

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def timepiece(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> Timepiece:
    moved = Timepiece()
    monkeypatch.setattr(clock, "now", moved)
    return moved


def nodes() -> list[dict[str, Any]]:
    return [node("db", kind="service"), node("check", after=["db"])]


def segments(body: api.TimelineBody, step_id: str) -> list[str]:
    (step,) = (step for step in body["steps"] if step["id"] == step_id)
    return [
        f"{part['kind']} {part['startMs']}+{part['lengthMs']}{'…' if 'open' in part else ''}"
        for attempt in step["attempts"]
        for part in attempt["segments"]
    ]


def test_a_run_has_the_segments_of_its_attempts(worker: Worker, timepiece: Timepiece) -> None:
    run = slow_run(worker, timepiece)

    body = api.timeline(run.principal, run.id)

    assert run.status == "Healthy"
    assert (body["durationMs"], body["isOver"], body["bootedMs"]) == (8650, True, 0)
    assert segments(body, "db") == [
        "queued 0+100",
        "pull 100+400",
        "ready 500+100",
        "running 600+8050",
    ]
    assert segments(body, "check") == ["running 600+1000", "queued 1600+5000", "running 6600+2000"]
    assert [link["stepId"] for link in body["criticalPath"]] == ["db", "check"]
    assert body["sentence"] == (
        "The longest wait was 5 s before attempt 2 of check. check ran for 3 s, 35% of the run."
    )


def test_a_run_that_goes_on_has_open_segments(worker: Worker, timepiece: Timepiece) -> None:
    run = booted_run(*nodes())
    worker.claim()
    timepiece.wait(300)

    body = api.timeline(run.principal, run.id)

    assert segments(body, "db") == ["start 0+300…"]
    assert segments(body, "check") == []
    assert not body["isOver"]
    assert body["sentence"] == "The longest wait so far was 300 ms for db to start."


def test_a_queued_run_has_none(timepiece: Timepiece) -> None:
    run = queued_run(*nodes())
    timepiece.wait(2000)

    body = api.timeline(run.principal, run.id)

    assert body["sentence"] == "The run has been in the queue for 2 s."
    assert [step["attempts"] for step in body["steps"]] == [[], []]
    assert "bootedMs" not in body


def test_a_canceled_run_ends_its_segments(worker: Worker, timepiece: Timepiece) -> None:
    run = booted_run(*nodes())
    worker.claim()
    timepiece.wait(300)
    cancel(run.principal, run.id)
    worker.end("db", "canceled")

    body = api.timeline(run.principal, run.id)

    assert run.status == "Canceled"
    assert segments(body, "db") == ["start 0+300"]
    assert body["steps"][0]["attempts"][0]["outcome"] == "canceled"


def test_the_line_of_an_instant_is_found_among_many(worker: Worker, timepiece: Timepiece) -> None:
    run = booted_run(node("a"), node("b"))
    start = timepiece.now
    worker.claim()
    for batch in range(20):  # two steps whose lines arrive in turn, those of b half a second late
        for step, late_ms in (("a", 0), ("b", 500)):
            times = [batch * 1000 + 10 * number - late_ms for number in range(100)]
            instants = [start + timedelta(milliseconds=ms) for ms in times]
            write_lines(worker, step, instants, seq=100 * batch)

    found = {ms: first_line_at(run.id, start + timedelta(milliseconds=ms)).get("id") for ms in
             (0, 4505, 12_000, 30_000)}  # fmt: skip

    texts = {line["id"]: line["text"] for line in numbered_lines(run)}
    assert found[0] == 1
    assert texts[found[4505]] == "a 451"
    assert texts[found[12_000]] == "a 1200"
    assert found[30_000] is None


def numbered_lines(run: Run) -> list[dict[str, Any]]:
    pages = b"".join(log_pages(run.id, "ndjson")).splitlines()
    records = [json.loads(page) for page in pages]
    return [{"id": record["id"], **record["line"]} for record in records]


def command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    return TypedWords(capsys)("run", "timeline", *words)


def test_the_command_draws_bars_and_answers_json(
    capsys: pytest.CaptureFixture[str],
    worker: Worker,
    timepiece: Timepiece,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = slow_run(worker, timepiece)
    ask_views_as(monkeypatch, run.principal)

    code, out, error = command(capsys, run.id)

    assert (code, error) == (0, "")
    assert out.startswith(f"{run.id}: 8.7 s. The longest wait was 5 s before attempt 2 of check.")
    rows = out.splitlines()[1:-1]
    assert [row.split()[:2] for row in rows] == [["*", "db"], ["*", "check"]]
    assert rows[1].endswith("8 s, 2 attempts")
    document = json.loads(command(capsys, run.id, "-o", "json")[1])
    assert document == api.timeline(run.principal, run.id)


def test_an_unknown_run_has_the_exit_code_of_not_found(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_views_as(monkeypatch, somebody())

    code, _out, error = command(capsys, "run-0123456789ab")

    assert code == 3
    assert "execution not found" in error
