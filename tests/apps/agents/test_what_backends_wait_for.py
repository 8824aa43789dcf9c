"""What a backend without a supervisor waits for, in words (reference: control-plane 4, 11.1)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from apps.agents import api, services
from apps.agents.domain.agent import Agent
from apps.agents.domain.availability import is_available, waits_for
from apps.agents.selectors import agents_ready
from apps.platform_settings import api as settings
from apps.platform_settings.api import Backend
from tests.apps.agents.test_registry import worker

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
LOCAL = Backend(backend_id="local", label="Local", routing_tags=("default", "local"))
ENGINE = Backend(
    backend_id="far", label="Far", type="remote-docker", host_url="tcp://far", routing_tags=("eu",)
)
GPU = Backend(backend_id="gpu", label="GPU", type="remote-agent", routing_tags=("gpu", "zone=eu"))


def agent(kind: str = "worker", backend: str = "gpu", **facts: object) -> Agent:
    given: dict[str, object] = {
        "agent_id": f"{kind}-{backend}", "incarnation": "1", "kind": kind, "name": "north",
        "host_url": "", "capabilities": (), "backends": (backend,), "labels": {}, "version": "",
        "registered_at": NOW, "last_heartbeat_at": NOW, "runtime_available": True, "runs": (),
        "running_jobs": 0, "host_id": "", "pid": None, "process_started_at": None,
    }  # fmt: skip
    return Agent(**{**given, **facts})  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", [LOCAL, ENGINE])
def test_tags_of_a_backend_that_a_runner_serves_inform_and_select_nothing(backend):
    runner = agent("runner", backend.backend_id)

    assert is_available(backend, [runner])
    assert waits_for(backend, [runner], NOW) == ""


def test_tags_of_a_remote_agent_select_its_workers():
    fitting = agent(labels={"gpu": "", "zone": "eu"})

    assert waits_for(GPU, [fitting], NOW) == ""
    assert not is_available(GPU, [agent(labels={"gpu": "", "zone": "us"})])


@pytest.mark.parametrize(
    ("backend", "known", "reason"),
    [
        (LOCAL, [], "no runner has registered for it"),
        (GPU, [], "no worker has registered for it"),
        (GPU, [agent("runner")], "no worker has registered for it"),
        (
            LOCAL,
            [agent("runner", "local", last_heartbeat_at=NOW - timedelta(minutes=5))],
            "its runner north was last heard of at 2026-11-25T11:55:00.000Z",
        ),
        (
            LOCAL,
            [agent("runner", "local", runtime_available=False)],
            "the engine of runner north does not answer",
        ),
        (GPU, [agent(labels={"zone": "eu"})], 'tag "gpu", which no online worker has'),
        (
            GPU,
            [agent(labels={"zone": "eu"}), agent(agent_id="b", labels={"gpu": ""})],
            'tags "gpu", "zone=eu", which no online worker has together',
        ),
        (
            GPU,
            [agent(labels={"gpu": "", "zone": "eu"}, drained_at=NOW, drained_by="Ada Byron")],
            "worker north was drained by Ada Byron at 2026-11-25T12:00:00.000Z; "
            "resume it in the admin",
        ),
        (
            GPU,
            [agent(labels={"gpu": "", "zone": "eu"}, drained_at=NOW)],
            "worker north was drained at 2026-11-25T12:00:00.000Z; resume it in the admin",
        ),
    ],
)
def test_the_reason_names_what_is_missing(backend, known, reason):
    assert waits_for(backend, known, NOW) == reason


@pytest.mark.store
@pytest.mark.django_db
def test_a_drain_remembers_who_began_it_until_it_ends():
    worker()

    services.drain("edge", by="Ada Byron")

    assert api.get_agent("edge").drained_by == "Ada Byron"
    services.resume("edge")
    assert (api.get_agent("edge").drained_by, api.get_agent("edge").drained_at) == ("", None)


@pytest.mark.django_db
def test_a_launch_is_refused_with_the_reason_of_every_backend(monkeypatch):
    monkeypatch.setattr("apps.platform_settings.services.effective.backends", lambda: (LOCAL, GPU))
    worker("north", backends=("gpu",), labels={"zone": "eu"}, name="north")

    with pytest.raises(settings.BackendUnavailable) as caught:
        settings.select_backend("", api.reasons_to_wait())

    assert caught.value.detail == (
        "no backend is available. local: no runner has registered for it. "
        'gpu: tag "gpu", which no online worker has'
    )


@pytest.mark.django_db
def test_readiness_names_the_tag_that_no_worker_has(monkeypatch):
    monkeypatch.setattr("apps.agents.selectors.backends", lambda: (GPU,))
    worker("north", backends=("gpu",), labels={"zone": "eu"})

    assert agents_ready().detail == 'GPU waits: tag "gpu", which no online worker has'
