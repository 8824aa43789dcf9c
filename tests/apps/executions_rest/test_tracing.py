"""The trace of a run begins with the request that launched it (reference: control-plane 2)."""

from __future__ import annotations

import pytest

from apps.agents.api import Registration, register
from apps.executions.models import Execution
from apps.platform_settings.api import backends
from kernel import telemetry
from kernel.telemetry import TelemetrySettings
from kernel.trace_context import parse_traceparent
from tests.support.otlp import collecting

pytestmark = pytest.mark.django_db(transaction=True)
CALLER = f"00-{'a' * 32}-{'b' * 16}-01"


@pytest.fixture(autouse=True)
def _runner(settings, tmp_path, db):
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "none.yaml"
    register(
        Registration(
            agent_id="runner-1",
            kind="runner",
            incarnation="i1",
            backends=tuple(backend.backend_id for backend in backends()),
        )
    )


def launched(ada, **headers: str) -> Execution:
    answer = ada.post("executions", {"suiteId": "hello"}, **headers)
    return Execution.objects.get(run_id=answer.json()["id"])


def test_a_run_joins_the_trace_of_the_request_that_launched_it(ada):
    with collecting() as collector:
        telemetry.configure(TelemetrySettings(endpoint=collector.endpoint))
        run = launched(ada, traceparent=CALLER)
        telemetry.shutdown()

    [request] = [span for span in collector.spans if span.name == "/api/v1/executions"]
    own = parse_traceparent(run.traceparent)
    assert own is not None
    assert own.trace_id == request.trace_id.hex() == "a" * 32
    assert run.parent_span_id == request.span_id.hex() != "b" * 16


def test_without_telemetry_it_joins_the_trace_of_the_caller(ada):
    run = launched(ada, traceparent=CALLER)

    own = parse_traceparent(run.traceparent)
    assert own is not None
    assert (own.trace_id, run.parent_span_id) == ("a" * 32, "b" * 16)
    assert own.span_id != "b" * 16


def test_an_unsampled_caller_makes_an_unsampled_run(ada):
    run = launched(ada, traceparent=CALLER[:-2] + "00")

    own = parse_traceparent(run.traceparent)
    assert own is not None
    assert not own.sampled


@pytest.mark.parametrize("headers", [{}, {"traceparent": "00-rubbish"}])
def test_without_a_caller_a_run_is_a_trace_of_its_own(ada, headers):
    run = launched(ada, **headers)

    assert parse_traceparent(run.traceparent) is not None
    assert run.parent_span_id == ""
