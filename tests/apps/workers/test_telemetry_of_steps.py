"""What steps learn of the collector (reference: control-plane 13.2)."""

from __future__ import annotations

import pytest

from apps.workers import conf


def told(settings, **values: str) -> dict[str, str]:
    for name, value in values.items():
        setattr(settings, name, value)
    return dict(conf.launch_rules().environment.telemetry)


def test_steps_get_the_endpoint_and_protocol_but_no_headers(settings):
    """Invariant 19."""
    variables = told(
        settings,
        OTEL_ENDPOINT="https://collector.example:4318",
        OTEL_PROTOCOL="http/protobuf",
        OTEL_HEADERS="authorization=hunter2",
    )

    assert variables == {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "https://collector.example:4318",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    }


@pytest.mark.parametrize(
    ("endpoint", "insecure", "url"),
    [
        ("http://user:hunter2@collector:4317", "", "http://collector:4317"),
        ("collector:4317", "", "https://collector:4317"),
        ("collector:4317", "true", "http://collector:4317"),
        ("127.0.0.1:4317", "", "http://127.0.0.1:4317"),
    ],
)
def test_their_endpoint_has_a_scheme_and_no_user(settings, endpoint, insecure, url):
    """Invariant 19."""
    variables = told(settings, OTEL_ENDPOINT=endpoint, OTEL_INSECURE=insecure)

    assert variables["OTEL_EXPORTER_OTLP_ENDPOINT"] == url


def test_without_a_collector_there_is_nothing_to_tell(settings):
    assert told(settings, OTEL_ENDPOINT="") == {}
