"""What a service's readiness comes to, whoever asks it."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import pytest

from tests.apps.workers.conftest import Stage
from tests.support.fake_runtime import FakeRuntime
from worker.domain.readiness import HttpProbe, ProbeResponse, TcpProbe
from worker.domain.runtime import Unit

SERVICE = {
    "kind": "service",
    "ports": ["8080"],
    "ready": {"http": "/health", "timeoutMs": 300, "intervalMs": 50},
}


class AskedInside(FakeRuntime):
    """Its units can be asked from inside only, and all give one answer."""

    def __init__(self, answer: ProbeResponse) -> None:
        super().__init__()
        self._answer = answer
        self.headers: Mapping[str, str] = {}

    async def endpoint(self, unit: Unit, port: int) -> None:
        del unit, port

    async def probe_inside(
        self, unit: Unit, probe: HttpProbe | TcpProbe, headers: Mapping[str, str]
    ) -> ProbeResponse:
        del unit, probe
        self.headers = headers
        return self._answer


async def _error_of(stage: Stage, answer: ProbeResponse) -> tuple[str, str]:
    stage.runtime = AskedInside(answer)
    async with stage.supervisor():
        outcome = await stage.store.outcome(await stage.add("serve", node=SERVICE))
    return outcome.reason, outcome.error


async def test_a_service_that_answers_from_inside_is_healthy(stage: Stage) -> None:
    stage.runtime = AskedInside(ProbeResponse(status=204))
    async with stage.supervisor():
        job = await stage.add("serve", node=SERVICE, headers={"x-suite-profile": "ci.yaml"})
        await stage.store.state(job, "healthy")

    assert stage.runtime.headers == {"x-suite-profile": "ci.yaml"}


async def test_the_reason_tells_what_the_last_probe_heard(stage: Stage) -> None:
    reason, error = await _error_of(stage, ProbeResponse(status=503))

    assert reason == "not_ready"
    assert error == (
        "its readiness probe did not pass within 0.3 s: /health on port 8080 answered 503"
    )


async def test_a_probe_that_cannot_be_made_never_makes_a_service_healthy(stage: Stage) -> None:
    """Invariant 1."""
    reason, error = await _error_of(
        stage, ProbeResponse(problem="the probe cannot be made: no image")
    )

    assert reason == "not_ready"
    assert error.endswith("the probe cannot be made: no image")


@pytest.mark.parametrize("ready", [{"tcp": 1}, {"http": "/health"}])
async def test_a_port_that_nobody_listens_on_is_not_ready(
    stage: Stage, ready: dict[str, object]
) -> None:
    """Invariant 1: the runtime names an address, and a connection to it is refused."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: nobody else gets the port
        stage.runtime.ports = {1: taken.getsockname()[1]}
        reason, error = await _reason_of_a_port(stage, ready)

    assert reason == "not_ready"
    assert error.endswith("port 1: connection refused")


async def _reason_of_a_port(stage: Stage, ready: dict[str, object]) -> tuple[str, str]:
    times = {"timeoutMs": 300, "intervalMs": 50}
    service = {"kind": "service", "ports": ["1"], "ready": {**ready, **times}}
    async with stage.supervisor():
        job = await stage.add("serve", node=service)
        await stage.store.state(job, "running")
        next(iter(stage.runtime.units.values())).listens.add(1)
        outcome = await stage.store.outcome(job)
    return outcome.reason, outcome.error
