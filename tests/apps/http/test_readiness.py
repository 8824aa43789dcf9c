"""Health and readiness (reference: control-plane 19)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError

from apps.health import services as readiness
from apps.health.api import Probe, ProbeResult
from apps.health.domain import probes as port
from apps.operations.models import ServerProcess
from apps.operations.services.server_processes import Presence
from kernel import clock
from kernel.registry import Registry
from tests.apps.http.conftest import Ask

READY = ProbeResult(ready=True)
Register = Callable[..., None]


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Register:
    """An empty registry; `probe(name, check, required=…)` fills it."""
    registry: Registry[Probe] = Registry("probe")
    monkeypatch.setattr(readiness, "probes", registry)
    monkeypatch.setattr(readiness, "runner", readiness.ProbeRunner())

    def register(name: str, check: Callable[[], ProbeResult], *, required: bool = True) -> None:
        registry.register(name)(Probe(name, required, check))

    return register


def test_liveness_touches_nothing(ask: Ask, settings: Any) -> None:
    body = ask("GET", "/healthz").json()

    assert (body["status"], body["dbDriver"], sorted(body)) == (
        "ok",
        settings.DB_DRIVER,
        ["dbDriver", "status", "time", "version"],
    )


@pytest.mark.parametrize("path", ["/readyz", "/api/v1/system/readyz"])
def test_the_report_lists_every_component_by_name(ask: Ask, probe: Register, path: str) -> None:
    probe("store", lambda: READY)
    probe("agents", lambda: ProbeResult(ready=False, detail="nobody"), required=False)
    probe("cache", lambda: ProbeResult(ready=False, disabled=True), required=False)

    answer = ask("GET", path)

    body = answer.json()
    assert (answer.status_code, body["status"]) == (200, "ready")
    assert [(c["name"], c["status"], c["ready"], c["required"]) for c in body["components"]] == [
        ("agents", "degraded", False, False),
        ("cache", "disabled", True, False),
        ("store", "ready", True, True),
    ]
    assert sorted(body["components"][0]) == [
        "checkedAt",
        "detail",
        "durationMs",
        "name",
        "ready",
        "required",
        "status",
    ]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/readyz/store", "/api/v1/system/healthz"])
def test_a_load_balancer_may_add_any_query(ask: Ask, probe: Register, path: str) -> None:
    probe("store", lambda: READY)

    assert ask("GET", f"{path}?x=1&x=2&token=t").status_code == 200


def test_a_required_component_that_fails_makes_it_503(ask: Ask, probe: Register) -> None:
    probe("store", lambda: ProbeResult(ready=False, detail="down"))

    assert ask("GET", "/readyz").status_code == 503
    assert ask("GET", "/readyz/store").status_code == 503
    assert int(ask("GET", "/readyz").headers["Retry-After"]) > 0
    assert int(ask("GET", "/readyz/store").headers["Retry-After"]) > 0
    assert ask("GET", "/readyz/store").json()["status"] == "not_ready"


def test_an_optional_component_that_fails_is_shown_with_200(ask: Ask, probe: Register) -> None:
    probe("cache", lambda: ProbeResult(ready=False), required=False)

    answer = ask("GET", "/api/v1/system/readyz/cache")

    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")


def test_what_a_probe_raises_stays_in_the_log(ask: Ask, probe: Register) -> None:
    def broken() -> ProbeResult:
        raise RuntimeError("postgres://user:hunter2@10.0.0.1")

    probe("store", broken)

    assert ask("GET", "/readyz/store").json()["detail"] == "the check failed (RuntimeError)"


@pytest.mark.timed
def test_probes_run_side_by_side_and_have_two_seconds(ask: Ask, probe: Register) -> None:
    released = threading.Event()

    def hangs() -> ProbeResult:
        released.wait(30)
        return READY

    for name in ("a", "b", "c"):
        probe(name, hangs)
    probe("quick", lambda: READY)
    started = time.monotonic()

    body = ask("GET", "/readyz").json()
    released.set()

    assert 1.9 < time.monotonic() - started < 3.5
    assert [c["ready"] for c in body["components"]] == [False, False, False, True]
    assert body["components"][0]["detail"] == "no answer in time"


@pytest.mark.parametrize(("kept_s", "times"), [(60.0, 1), (0.0, 5)])
def test_an_answer_is_kept_for_its_time_and_no_longer(
    ask: Ask, probe: Register, monkeypatch: pytest.MonkeyPatch, kept_s: float, times: int
) -> None:
    monkeypatch.setattr(readiness, "KEPT_S", kept_s)
    asked: list[int] = []

    def count() -> ProbeResult:
        asked.append(1)
        return READY

    probe("store", count)

    for _ in range(5):
        ask("GET", "/readyz")

    assert len(asked) == times


def test_draining_makes_it_503(ask: Ask, probe: Register, draining: None) -> None:
    probe("store", lambda: READY)

    answer = ask("GET", "/readyz")

    assert (answer.status_code, answer.json()["status"]) == (503, "not_ready")


@pytest.mark.django_db(transaction=True)
def test_the_store_is_written_and_read() -> None:
    assert readiness.check_datastore() == READY


@pytest.mark.django_db
def test_without_configuration_cache_and_telemetry_are_disabled(settings: Any) -> None:
    settings.REDIS_URL = ""

    assert readiness.check_cache().disabled
    assert readiness.check_telemetry().disabled


@pytest.mark.django_db
def test_several_servers_without_redis_are_degraded(settings: Any) -> None:
    settings.REDIS_URL = ""
    both = [Presence(), Presence()]
    for presence in both:
        presence.note()
        presence.note()
    two = readiness.check_cache()
    ServerProcess.objects.filter(id=both[0]._id).update(seen_at=clock.now() - timedelta(minutes=1))

    assert (two.ready, two.disabled) == (False, False)
    assert two.detail.startswith("each of 2 control-plane processes keeps the state of mocks")
    assert readiness.check_cache().disabled


def test_a_store_that_is_away_says_nothing_of_servers(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> int:
        raise OperationalError("database is locked")

    settings.REDIS_URL = ""
    monkeypatch.setattr(readiness, "living_servers", away)

    assert readiness.check_cache().disabled


def test_a_cache_that_is_away_is_named_without_its_address(settings: Any) -> None:
    settings.REDIS_URL = "redis://:hunter2@127.0.0.1:1/0"

    result = readiness.check_cache()

    assert not result.ready
    assert result.detail.startswith("no answer (ConnectionError)")
    assert "127.0.0.1" not in result.detail


def test_the_probes_of_this_app_are_registered() -> None:
    assert {"cache", "datastore", "telemetry"} <= set(port.probes)


def test_every_subsystem_of_the_reference_is_there() -> None:
    assert set(port.probes) == {
        "agents", "artifacts", "background", "broker", "cache", "datastore", "launchable-suites",
        "platform-settings", "profiles", "telemetry",
    }  # fmt: skip
