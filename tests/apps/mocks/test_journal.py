"""The journal of calls: bounded, without credentials, and in Redis without anybody waiting."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from apps.mocks.components import mask_text
from kernel.errors import FieldErrorDocument
from kernel.redaction import known_secrets
from mocks.journal.entries import NotedCall, decode_entry, encode_entry, entry_of
from mocks.journal.memory import MemoryJournal
from mocks.journal.redis import RedisJournal
from mocks.model.calls import CallOutcome, JournalEntry
from mocks.redis_link import RedisLink

REDIS = os.environ.get("TEST_REDIS_ADDR", "")


def call(number: int, **more: Any) -> NotedCall:
    noted = NotedCall(
        f"c{number:06}", time.time() + number, "GET", f"/{number}", "a", "op", "one",
        CallOutcome.EXAMPLE, 200, 1.5, [(b"accept", b"*/*")], b"",
    )  # fmt: skip
    return noted._replace(**more)


@pytest.fixture
def redis_journal(request: pytest.FixtureRequest) -> Iterator[RedisJournal]:
    if not REDIS:
        pytest.skip("needs Redis: TEST_REDIS_ADDR is not set (run `make test`)")
    prefix = f"test-journal-{os.getpid()}-{abs(hash(request.node.nodeid))}"
    journal = RedisJournal(RedisLink(f"redis://{REDIS}/0", prefix=prefix), str, gather_s=0.01)
    yield journal
    journal.close()


def test_each_space_keeps_its_newest_thousand_calls() -> None:
    """Invariant 38: memory that grows with the number of mock requests."""
    journal = MemoryJournal()
    for number in range(1_200):
        journal.add("s", call(number))
    journal.add("t", call(0))
    entries = asyncio.run(journal.entries("s"))

    assert len(entries) == 1_000
    assert (entries[0].path, entries[-1].path) == ("/1199", "/200")
    assert len(journal.newest("t")) == 1


def test_all_spaces_together_are_bounded() -> None:
    """Invariant 37."""
    journal = MemoryJournal(most_calls=100, most_bytes=50_000)
    for space in range(20):
        for number in range(20):
            journal.add(f"s{space}", call(number))
    assert sum(len(journal.newest(f"s{space}")) for space in range(20)) <= 100
    assert len(journal.newest("s19")) == 20
    for number in range(10):
        journal.add("big", call(number, body=b"x" * 16_000))
    assert len(journal.newest("big")) == 3
    assert journal._bytes == 48_000


def test_headers_and_paths_count_as_bodies_do() -> None:
    """Invariant 37."""
    journal = MemoryJournal(most_bytes=200_000)
    for number in range(20):
        journal.add(f"h{number}", call(number, headers=[(b"x-large", b"y" * 60_000)]))
        journal.add(f"p{number}", call(number, path="/" + "y" * 60_000))
    spaces = [f"{kind}{number}" for kind in "hp" for number in range(20)]
    assert [each for each in spaces if journal.newest(each)] == ["h19", "p18", "p19"]
    assert asyncio.run(journal.clear("h19")) == 1
    for space in ("p18", "p19"):
        journal.forget(space)
    assert journal._bytes == 0


def test_calls_are_removed_by_surface_and_operation() -> None:
    journal = MemoryJournal()
    for number, (surface, operation) in enumerate([("a", "x"), ("a", "y"), ("b", "x")]):
        journal.add("s", call(number, surface_id=surface, operation_id=operation))

    assert asyncio.run(journal.clear("s", surface_id="a", operation_id="y")) == 1
    assert [each.surface_id for each in journal.newest("s")] == ["b", "a"]
    assert asyncio.run(journal.clear("s", operation_id="x")) == 2
    assert asyncio.run(journal.clear("s")) == asyncio.run(journal.clear("none")) == 0


def test_credentials_are_not_in_an_entry() -> None:
    known_secrets.add("a-known-secret")
    headers = [
        (b"authorization", b"Bearer abcdef"),
        (b"cookie", b"sid=abcdef"),
        (b"x-api-key", b"abcdef"),
        (b"x-amz-security-token", b"abcdef"),
        (b"x-session-id", b"abcdef"),
        (b"x-auth", b"abcdef"),
        (b"sec-websocket-protocol", b"base64url.bearer.abcdef"),
        (b"x-author", b"ada"),
        (b"x-own", b"say a-known-secret"),
        (b"accept", b"*/*"),
    ]
    entry = entry_of(
        call(1, headers=headers, body=b'{"p": "a-known-secret"}', path="/x/a-known-secret"),
        mask_text,
    )

    assert "abcdef" not in str(entry)
    assert "a-known-secret" not in str(entry)
    assert entry.request_headers["accept"] == "*/*"
    assert entry.request_headers["x-author"] == "ada"
    assert entry.request_body == '{"p": "***"}'


def test_credentials_are_not_in_what_a_call_was_nearest_to() -> None:
    known_secrets.add("a-known-secret")
    sent = [
        ("query", "access_token", "abcdef"),
        ("body", "user.password", "abcdef"),
        ("header", "x-signature", "abcdef"),
        ("header", "x-own", "say a-known-secret"),
        ("path", "id", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhYmNkZWYifQ.c2lnbmF0dXJl"),
        ("query", "q", "apples"),
    ]
    conditions = [
        {"from": source, "param": name, "expected": "x", "actual": value, "ok": False}
        for source, name, value in sent
    ]
    nearest = {"example": "one", "conditions": [*conditions, {"from": "query", "param": "none"}]}
    entry = entry_of(call(1, nearest=nearest), mask_text)

    for secret in ("abcdef", "a-known-secret", "eyJ"):
        assert secret not in str(entry)
    assert entry.nearest is not None
    assert entry.nearest["conditions"][5]["actual"] == "apples"
    assert conditions[0]["actual"] == "abcdef"  # the caller keeps its own


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ('{"user": "ada", "password": "abc\\"def"}', '{"user": "ada", "password": "***"}'),
        ('{"a":{"apiKey" : "abc"},"n":"x"}', '{"a":{"apiKey" : "***"},"n":"x"}'),
        ('[{"access_token": "abc', '[{"access_token": "***'),  # cut at 16 KiB
        ('{"tokens": 3, "password": "", "say": "token"}', None),
        ("password=abc&a=1", "password=***&a=1"),
        ("", None),
    ],
)
def test_members_of_a_body_that_are_credentials_are_masked(body: str, shown: str | None) -> None:
    entry = entry_of(call(1, body=body.encode()), mask_text)

    assert entry.request_body == (body if shown is None else shown)


def test_many_headers_are_cut() -> None:
    headers = [(f"x-{number}".encode(), b"y" * 1_000) for number in range(100)]
    entry = entry_of(call(1, headers=headers), str)

    assert 10 <= len(entry.request_headers) < 20


def test_an_entry_survives_redis() -> None:
    broken: FieldErrorDocument = {"pointer": "/body", "code": "required", "detail": "is required"}
    headers = [(b"x-partita-step-id", b"buy")]
    noted = call(1, headers=headers, nearest={"example": "one"}, contract_errors=(broken,))
    entry = entry_of(noted, str)

    assert decode_entry(encode_entry(entry)) == JournalEntry(
        id=entry.id,
        time=decode_entry(encode_entry(entry)).time,
        method="GET",
        path="/1",
        surface_id="a",
        operation_id="op",
        matched_example="one",
        outcome=CallOutcome.EXAMPLE,
        status=200,
        duration_ms=1.5,
        request_headers={"x-partita-step-id": "buy"},
        step_id="buy",
        nearest={"example": "one"},
        contract_errors=(broken,),
    )
    assert abs((decode_entry(encode_entry(entry)).time - entry.time).total_seconds()) < 0.002


@pytest.mark.redis
def test_processes_share_a_journal_in_redis(redis_journal: RedisJournal) -> None:
    other = RedisJournal(redis_journal._link, str)
    for number in range(1_100):
        redis_journal.add("s", call(number))
    redis_journal.send()
    other.add("s", call(2_000))
    other.send()

    entries = redis_journal.newest("s")
    assert len(entries) == 1_000
    assert [each.path for each in entries[:2]] == ["/2000", "/1099"]
    assert asyncio.run(other.clear("s", surface_id="b")) == 0
    assert asyncio.run(other.clear("s", operation_id="op")) == 1_000
    assert redis_journal.newest("s") == []
    other.close()


@pytest.mark.redis
def test_the_thread_sends_what_is_new(redis_journal: RedisJournal) -> None:
    reader = RedisJournal(redis_journal._link, str)
    redis_journal.add("s", call(1))
    deadline = time.monotonic() + 10
    while not reader.newest("s"):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_without_redis_calls_stay_here_and_wait() -> None:
    """Invariants 34 and 37."""
    journal = RedisJournal(RedisLink("redis://127.0.0.1:1/0"), str, gather_s=60)
    for number in range(1_200):
        journal.add("s", call(number))
    journal.send()

    assert len(journal.newest("s")) == 1_000
    assert asyncio.run(journal.clear("s")) == 1_000
    journal.close()
