from __future__ import annotations

import asyncio
import json
import time
import tracemalloc
from collections import Counter

import pytest
from asgiref.testing import ApplicationCommunicator

from apps.executions.selectors import logs as log_reading
from platform_site.asgi import application
from tests.apps.executions_rest.conftest import make_run, write_lines
from tests.support.api_clients import problem


def body_of(answer):
    """The bytes of a streamed answer."""

    async def collected():
        return b"".join([piece async for piece in answer.streaming_content])

    return asyncio.run(collected())


def search(caller, row, **query):
    answer = caller.get(f"executions/{row.run_id}/logs/search", query)
    assert answer.status_code == 200, answer.content
    return answer.json()


@pytest.mark.django_db(transaction=True)
def test_a_download_is_the_log_as_text(ada):
    row = make_run(ada.workspace_id)
    write_lines(row.run_id, "api", ["listening", "\x1b[31mred\x1b[0m ü"])
    write_lines(row.run_id, "db", ["ready"])

    answer = ada.get(f"executions/{row.run_id}/logs/download")

    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert answer["Content-Disposition"] == f'attachment; filename="{row.run_id}.log"'
    assert body_of(answer).decode() == (
        "00:01 [api] listening\n00:01 [api] \x1b[31mred\x1b[0m ü\n00:01 [db] ready\n"
    )


@pytest.mark.django_db(transaction=True)
def test_a_download_as_ndjson_has_the_records_of_the_stream(ada):
    row = make_run(ada.workspace_id)
    write_lines(row.run_id, "api", ["one"])
    write_lines(row.run_id, "db", ["two"])

    answer = ada.get(f"executions/{row.run_id}/logs/download?format=ndjson&source=db")

    (record,) = map(json.loads, body_of(answer).splitlines())
    assert answer["Content-Type"] == "application/x-ndjson"
    assert record.keys() == {"id", "executionId", "line"}
    assert (record["id"], record["executionId"], record["line"]["text"]) == (2, row.run_id, "two")


@pytest.mark.django_db(transaction=True)
def test_an_empty_log_is_an_empty_file(ada):
    row = make_run(ada.workspace_id)

    assert body_of(ada.get(f"executions/{row.run_id}/logs/download")) == b""


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
async def test_a_download_of_100_000_lines_takes_constant_memory(ada_async):
    """Invariant 38, through the whole pipeline: nothing on the way gathers the body."""
    ada, row = ada_async
    scope = {
        "type": "http",
        "method": "GET",
        "path": f"/api/v1/executions/{row.run_id}/logs/download",
        "query_string": b"format=ndjson",
        "headers": [(b"authorization", ada.bearer.encode()), (b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "http_version": "1.1",
    }
    call = ApplicationCommunicator(application, scope)
    await call.send_input({"type": "http.request", "body": b"", "more_body": False})
    assert (await call.receive_output(5))["status"] == 200
    tracemalloc.start()

    received = lines = 0
    while (message := await call.receive_output(5)).get("more_body"):
        received += len(message["body"])
        lines += message["body"].count(b"\n")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    await call.wait()

    assert lines == 100_000
    assert received > 30 * 2**20
    assert peak < 8 * 2**20


@pytest.fixture
def ada_async(ada, transactional_db):
    row = make_run(ada.workspace_id)
    write_lines(row.run_id, "api", [f"line {n} " + "x" * 200 for n in range(100_000)])
    return ada, row


def test_a_search_gives_matches_with_their_numbers_and_the_total(ada):
    row = make_run(ada.workspace_id)
    write_lines(row.run_id, "api", [f"GET /pets/{n}" for n in range(120)])
    write_lines(row.run_id, "db", ["get ready", "POST"])

    first = search(ada, row, q="get", limit=100)
    rest = search(ada, row, q="get", limit=100, cursor=first["nextCursor"])

    assert first.keys() == {"matches", "total", "sources", "nextCursor"}
    assert first["matches"][0].keys() == {"id", "line", "found"}
    assert first["matches"][0]["found"] == "GET"
    assert [match["id"] for match in first["matches"] + rest["matches"]] == list(range(1, 122))
    assert first["total"] == rest["total"] == 121
    assert "nextCursor" not in rest


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ({"q": "PETS"}, [1, 2]),
        ({"q": "PETS", "case": "true"}, []),
        ({"q": "pets/[2-9]", "regex": "true"}, [2]),
        ({"q": "pets/[2-9]"}, []),
        ({"q": "e", "source": "db"}, [3]),
        ({"q": "e", "source": ["db", "api"]}, [1, 2, 3]),
        ({"q": "pets", "kind": "system"}, []),
        ({"q": "e", "level": "warn"}, [3]),
    ],
)
def test_a_search_is_narrowed(ada, query, numbers):
    row = make_run(ada.workspace_id)
    write_lines(row.run_id, "api", ["GET /pets/1", "GET /pets/2"])
    write_lines(row.run_id, "db", ["ready"], level="warn")

    body = search(ada, row, **query)

    assert [match["id"] for match in body["matches"]] == numbers
    assert body["total"] == len(numbers)


def test_a_search_looks_at_a_bounded_part_and_goes_on_from_there(ada, monkeypatch):
    monkeypatch.setattr(log_reading, "SEARCHED_RECORDS", 1000)
    row = make_run(ada.workspace_id)
    texts = ["needle" if n % 1500 == 0 else "hay" for n in range(4000)]
    write_lines(row.run_id, "api", texts)

    found, query = [], {"q": "needle"}
    pages = 0
    while True:
        body = search(ada, row, **query)
        found += [match["id"] for match in body["matches"]]
        pages += 1
        if "nextCursor" not in body:
            break
        query = {"q": "needle", "cursor": body["nextCursor"]}

    assert found == [1, 1501, 3001]
    assert body["total"] == 3
    assert pages > 1


def test_a_search_counts_the_matches_of_each_source(ada, monkeypatch):
    monkeypatch.setattr(log_reading, "SEARCHED_RECORDS", 150)
    row = make_run(ada.workspace_id)
    write_lines(row.run_id, "api", [f"row {n}" for n in range(100)])
    write_lines(row.run_id, "db", [f"row {n}" for n in range(100)])
    write_lines(row.run_id, "web", ["nothing"])

    counts: Counter[str] = Counter()
    query = {"q": "row [12]\\d", "regex": "true", "limit": 3}
    while True:
        body = search(ada, row, **query)
        counts.update(body["sources"])
        if "nextCursor" not in body:
            break
        query |= {"cursor": body["nextCursor"]}

    assert counts == {"api": 20, "db": 20}
    assert body["total"] == 40
    assert body["matches"][-1]["found"] == "row 29"


def test_a_cursor_of_another_search_is_refused(ada):
    row = make_run(ada.workspace_id)
    write_lines(row.run_id, "api", ["a", "a"])
    cursor = search(ada, row, q="a", limit=1)["nextCursor"]

    other = ada.get(f"executions/{row.run_id}/logs/search", {"q": "b", "cursor": cursor})

    assert problem(other) == (400, "invalid_cursor")


@pytest.mark.timed
def test_a_hostile_pattern_over_long_lines_stays_linear(ada):
    """Invariant 27."""
    row = make_run(ada.workspace_id)
    write_lines(row.run_id, "api", ["a" * 16_000] * 50)

    began = time.perf_counter()
    body = search(ada, row, q="(a|aa)+$x", regex="true")

    assert body["total"] == 0
    assert time.perf_counter() - began < 3
