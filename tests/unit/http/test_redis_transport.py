"""A message that cannot be settled with the broker stops counting as fetched."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from kombu.transport import redis as kombu_redis
from redis import exceptions

from platform_site.redis_transport import QoS

TAG = "a-delivery"
SETTLE = pytest.mark.parametrize("settle", ["ack", "reject"])


class Broker:
    """Redis, as far as a message is settled; raises `failure`."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.told = 0

    def settle(self, _tag: str, requeue: bool = False) -> None:
        self.told += 1
        if self.failure:
            raise self.failure


def holding_one(monkeypatch: pytest.MonkeyPatch, broker: Broker, client: object = "open") -> QoS:
    """One message is fetched, of one that may be."""
    for name in ("ack", "reject"):
        monkeypatch.setattr(kombu_redis.QoS, name, broker.settle)
    channel: Any = SimpleNamespace(
        connection=SimpleNamespace(client=client),
        connection_errors=(exceptions.ConnectionError,),
        ResponseError=exceptions.ResponseError,
    )
    qos = QoS(channel, prefetch_count=1)
    qos._on_collect.cancel()
    qos._delivered[TAG] = "a message"
    assert not qos.can_consume()
    return qos


@SETTLE
def test_a_lost_connection_is_raised_and_the_next_message_fetched(monkeypatch, settle: str):
    qos = holding_one(monkeypatch, Broker(exceptions.ConnectionError("lost")))
    with pytest.raises(exceptions.ConnectionError):
        getattr(qos, settle)(TAG)
    assert qos.can_consume()


@SETTLE
@pytest.mark.parametrize("refusal", [exceptions.ReadOnlyError, exceptions.ResponseError])
def test_a_broker_that_refuses_is_logged_and_the_next_message_fetched(
    monkeypatch, caplog, settle: str, refusal: type[Exception]
):
    qos = holding_one(monkeypatch, Broker(refusal("READONLY You can't write against a replica")))
    with caplog.at_level(logging.WARNING):
        getattr(qos, settle)(TAG)
    assert qos.can_consume()
    assert f"{TAG} stays in the broker: the broker refuses it: {refusal.__name__}" in caplog.text


@SETTLE
def test_a_closed_connection_is_not_asked(monkeypatch, settle: str):
    broker = Broker()
    qos = holding_one(monkeypatch, broker, client=None)
    getattr(qos, settle)(TAG)
    assert (qos.can_consume(), broker.told) == (True, 0)


def test_nothing_is_restored_over_a_closed_connection(monkeypatch):
    qos = holding_one(monkeypatch, Broker(), client=None)
    qos.restore_unacked_once()
    assert qos._delivered == {}
    qos.restore_unacked_once()  # a second call finds nothing to do
