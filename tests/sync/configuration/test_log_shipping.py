"""Log lines on their way to a search index, and settings of what leaves a process."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from kernel.background_writer import QueueLimits
from kernel.redaction import known_secrets
from sync_stack.configuration import telemetry
from sync_stack.configuration.conf import Environment
from sync_stack.configuration.telemetry import (
    Endpoint,
    ExportSettings,
    LogShipper,
    ProcessTelemetry,
    ShippingSettings,
    read_export_settings,
)
from tests.support.processes import until
from tests.support.search_index import SearchIndex, serving


@pytest.fixture
def index() -> Iterator[SearchIndex]:
    with serving() as made:
        yield made


class Shipped:
    """A shipper with a logger of its own, and what it dropped."""

    def __init__(self, *urls: str, password: str = "") -> None:
        self.dropped: Counter[str] = Counter()
        endpoints = tuple(Endpoint(url=url, username="ann", password=password) for url in urls)
        settings = ShippingSettings(endpoints=endpoints, index="partita-sync", service="gateway")
        self.shipper = LogShipper(settings, dropped=self._drop)
        self.log = logging.Logger("shipped", logging.DEBUG)  # noqa: LOG001 - of nobody else
        self.log.addHandler(self.shipper)

    def _drop(self, reason: str, lines: int) -> None:
        self.dropped[reason] += lines


@pytest.fixture
def shipped(index: SearchIndex, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shipped]:
    monkeypatch.setattr(telemetry, "FIRST_SHIPPING_PAUSE_S", 0.05)
    made = Shipped(index.url)
    yield made
    index.gate.set()
    made.shipper.stop(10)


def test_lines_reach_the_index_as_they_stand_on_stdout_without_secrets(index):
    """Sync invariant 24."""
    known_secrets.add("hunter2-hunter2")
    shipped = Shipped(index.url, password="hunter3-hunter3")
    fields = {"event": "drift_detected", "rule_id": "shop"}
    shipped.log.warning("drift of %s", "hunter2-hunter2", extra=fields)
    until(lambda: index.documents, within_s=30)
    shipped.shipper.stop(10)
    (document,) = index.documents
    assert (
        document.items()
        >= {
            **fields,
            "message": "drift of ***",
            "level": "WARNING",
            "service": "gateway",
        }.items()
    )
    assert document["@timestamp"].startswith(document["ts"][:19])
    assert index.paths[0].startswith("/partita-sync/_bulk?")
    assert index.credentials == ["ann:hunter3-hunter3"]
    assert not shipped.dropped


@pytest.mark.timed
def test_an_index_that_hangs_holds_nobody_up_and_what_does_not_fit_is_counted(
    index, shipped, monkeypatch
):
    monkeypatch.setattr(shipped.shipper._writer, "_limits", QueueLimits(items=100))
    index.gate.clear()
    shipped.log.info("first")
    until(lambda: not shipped.shipper._writer._items, within_s=30, what="it is being sent")
    begun = time.monotonic()
    for number in range(150):
        shipped.log.info("line %d", number)
    assert time.monotonic() - begun < 2
    assert shipped.dropped == {"queue_full": 50}
    index.gate.set()
    until(lambda: len(index.documents) == 101, within_s=30)
    assert index.messages()[-1] == "line 99"


def test_lines_that_an_index_cannot_take_now_are_sent_again(index, shipped):
    index.statuses += [503, 401, 429]
    shipped.log.info("patience")
    until(lambda: index.messages() == ["patience"], within_s=30)
    assert len(index.paths) == 4
    assert not shipped.dropped


def test_lines_that_the_index_refuses_are_counted_and_the_busy_ones_come_again(index, shipped):
    index.gate.clear()
    index.items.update({"wrong": 400, "busy": 429})
    for message in ("good", "wrong", "busy"):
        shipped.log.info(message)
    index.gate.set()
    until(lambda: sorted(index.messages()) == ["busy", "good"], within_s=30)
    assert shipped.dropped == {"rejected": 1}


def test_another_endpoint_is_asked_when_one_is_away(index, monkeypatch):
    monkeypatch.setattr(telemetry, "FIRST_SHIPPING_PAUSE_S", 0.05)
    shipped = Shipped("http://127.0.0.1:9", index.url)
    shipped.log.info("found")
    until(lambda: index.messages() == ["found"], within_s=30)
    shipped.shipper.stop(10)


def test_what_cannot_be_sent_by_the_end_is_counted():
    shipped = Shipped("http://127.0.0.1:9")
    shipped.log.info("lost")
    shipped.shipper.stop(10)
    assert shipped.dropped == {"unsent": 1}


def test_what_waits_is_sent_at_the_end(index, shipped):
    for number in range(1200):
        shipped.log.info("line %d", number)
    shipped.shipper.stop(20)
    assert len(index.documents) == 1200
    assert not shipped.dropped


def test_failures_of_shipping_are_said_once_and_not_shipped(index, shipped, caplog):
    index.statuses += [503, 503, 503]
    root = logging.getLogger()
    root.addHandler(shipped.shipper)
    try:
        logging.getLogger("partita.test").warning("seen")
        until(lambda: "seen" in index.messages(), within_s=30)
    finally:
        root.removeHandler(shipped.shipper)
    said = [
        record.message for record in caplog.records if record.name == telemetry.shipping_log.name
    ]
    assert said[0] == "log lines are not shipped: status 503"
    assert sum("not shipped" in each for each in said) == 1
    assert not any("shipped" in message for message in index.messages())


def settings_of(**variables: str) -> tuple[ExportSettings, list[str]]:
    environment = Environment(variables)
    return read_export_settings(environment, service="watcher"), environment.problems


def test_nothing_leaves_the_process_unless_it_is_asked_for():
    settings, problems = settings_of(
        OTEL_EXPORTER_OTLP_ENDPOINT="http://collector:4317", ES_ENDPOINTS="http://index:9200"
    )
    assert (settings, problems) == (ExportSettings(), [])
    root = logging.getLogger()
    before = list(root.handlers)
    exports = ProcessTelemetry(settings)
    assert root.handlers == before
    exports.stop()


def test_settings_of_traces_and_shipping():
    settings, problems = settings_of(
        OTEL_ENABLED="true",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        OTEL_EXPORTER_OTLP_HEADERS="api-key=abc%20d",
        ELK_ENABLED="yes",
        ES_ENDPOINTS="https://ann:p%40ss-word@one:9200/es/, http://[::1]:9201",
        ES_INDEX="logs-partita",
    )
    assert problems == []
    assert settings.telemetry is not None
    assert settings.shipping is not None
    assert settings.telemetry.endpoint == "http://localhost:4318"
    assert settings.telemetry.service_name == "partita-sync-watcher"
    assert settings.telemetry.headers == {"api-key": "abc d"}
    assert settings.shipping.endpoints == (
        Endpoint(url="https://one:9200/es", username="ann", password="p@ss-word"),
        Endpoint(url="http://[::1]:9201"),
    )
    assert settings.shipping.index == "logs-partita"
    assert known_secrets.mask("p@ss-word") == "***"


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({"ELK_ENABLED": "1"}, "ES_ENDPOINTS: required, because ELK_ENABLED is set"),
        (
            {"ELK_ENABLED": "1", "ES_ENDPOINTS": "index:9200"},
            "ES_ENDPOINTS: separate URLs by commas, as in https://user:password@host:9200",
        ),
        (
            {"ELK_ENABLED": "1", "ES_ENDPOINTS": "http://a:secret-word@host:port"},
            "ES_ENDPOINTS: separate URLs by commas, as in https://user:password@host:9200",
        ),
        (
            {"ELK_ENABLED": "1", "ES_ENDPOINTS": "http://i", "ES_INDEX": "Logs/1"},
            "ES_INDEX='Logs/1': expected lower-case letters, digits, dots and dashes",
        ),
        ({"OTEL_ENABLED": "maybe"}, "OTEL_ENABLED='maybe': expected true or false"),
        (
            {"OTEL_ENABLED": "true", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
            "OTEL_EXPORTER_OTLP_PROTOCOL='http/json': expected one of grpc, http/protobuf",
        ),
    ],
)
def test_wrong_settings_are_named_without_quoting_passwords(variables, problem):
    assert settings_of(**variables)[1] == [problem]
