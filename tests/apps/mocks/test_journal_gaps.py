"""Calls that a journal may lack are said: nothing is concluded from their absence."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace

import pytest

from apps.mocks import api, components
from apps.mocks.lifespan import MocksPart
from apps.operations.api import living_servers
from apps.operations.models import ServerProcess
from kernel import clock
from kernel.ids import new_uuid
from kernel.redis_breaker import RedisUnavailable
from mocks.redis_link import RedisLink


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], components.MockParts]:
    def made(url: str) -> components.MockParts:
        found = components.MockParts(url)
        monkeypatch.setattr(components, "mock_parts", lambda: found)
        return found

    return made


@pytest.mark.django_db
def test_a_server_that_started_again_has_lost_calls(parts) -> None:
    found, since = parts(""), clock.now()
    found.serves_since = since - timedelta(seconds=1)
    assert api.journal_gap(since) == ""

    found.serves_since = since + timedelta(seconds=1)
    assert "the server started again" in api.journal_gap(since)
    assert "REDIS_ADDR" in api.journal_gap(since)


@pytest.mark.django_db
def test_several_servers_without_redis_have_calls_apart(parts) -> None:
    found = parts("")
    found.serves_since = clock.now()
    for _ in range(2):
        ServerProcess.objects.create(id=new_uuid(), seen_at=clock.now())

    assert living_servers() == 2
    assert api.journal_gap(clock.now()) == "", "one may be the server that this one replaced"

    found.serves_since = clock.now() - timedelta(minutes=1)
    assert api.journal_gap(clock.now()).startswith("several servers answer")


def test_redis_that_is_away_keeps_calls_apart(parts) -> None:
    found, since = parts("redis://127.0.0.1:1/0"), clock.now()
    assert isinstance(found.link, RedisLink)
    assert api.journal_gap(since) == ""

    with pytest.raises(RedisUnavailable):
        found.link.run_from_thread("return 1", [], ())
    assert "Redis does not answer" in api.journal_gap(since)


async def test_a_server_knows_since_when_it_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    made = components.MockParts("")
    monkeypatch.setattr("apps.mocks.lifespan.mock_parts", lambda: made)
    monkeypatch.setattr(made, "scripts", SimpleNamespace(open=lambda: None, close=lambda: None))
    part, before = MocksPart(), clock.now()
    await part.start()
    try:
        assert made.serves_since is not None
        assert made.serves_since >= before
    finally:
        await part.stop()
    assert made.serves_since is None
