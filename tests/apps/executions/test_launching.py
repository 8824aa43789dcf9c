"""Launches of real suite packages: checks in their order, admission, idempotency."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from apps.agents import models as agents
from apps.executions import api
from apps.executions.domain.runs import Idempotency, IdempotencyKeyReused, Launched, QueueFull
from apps.executions.models import Execution, IdempotencyKey, Snapshot
from apps.executions.services.admission import dispatch
from apps.executions.services.launch import launch_once
from apps.platform_settings.api import BackendUnavailable
from apps.platform_settings.domain.backends import BackendUnknown
from apps.profiles.api import ProfileInvalid, ProfileNotInSuite
from apps.suites.api import SuiteNotFound
from apps.suites.selectors import TopologyInvalid
from kernel import clock
from tests.apps.executions.runs import Run, Worker, node, queued_run
from tests.support.people import somebody
from tests.support.threads import at_once

SUITE = """
load("@partita/runtime", "task", "test")
build = task.run("build", image = "busybox:1.36", command = ["true"], env = {"R": env["REGION"]})
test.run("check", image = "busybox:1.36", command = ["true"], after = [build])
"""
PROFILE = "default: true\nenv: {REGION: eu}\n"


@pytest.fixture
def suites(settings) -> Path:
    return write_suite(settings.SUITES_DIR, "hello", SUITE, {"ci.yaml": PROFILE})


def write_suite(folder: Path, name: str, text: str, profiles: dict[str, str]) -> Path:
    suite = folder / name
    (suite / "profiles").mkdir(parents=True)
    (suite / "suite.star").write_text(text)
    (suite / "README.md").write_text(f"# {name}\n")
    for file, body in profiles.items():
        (suite / "profiles" / file).write_text(body)
    return folder


def asked(**facts: Any) -> api.LaunchRequest:
    return api.LaunchRequest(**{"suite_id": "hello", **facts})


def test_a_launch_stores_the_run_its_steps_and_what_it_was_made_of(suites, worker: Worker):
    principal = somebody()
    summary = api.launch(principal, asked(commit="abc", trigger="CI"))

    assert summary["status"] == "Queued"
    assert (summary["suiteId"], summary["profile"]) == ("hello", "ci.yaml")
    assert (summary["backendId"], summary["queuePosition"]) == ("local-docker", 1)
    dispatch()
    assert worker.claim() == ["build"]
    spec = worker.jobs["build"]
    assert spec["env"]["R"] == "eu"
    assert spec["owner"] == "Ada Lovelace"
    assert spec["content"]["size"] > 0


def test_what_suite_star_prints_are_system_lines_of_the_run(settings, worker: Worker):
    write_suite(settings.SUITES_DIR, "hello", 'print("region", env["REGION"])\n' + SUITE,
                {"ci.yaml": PROFILE})  # fmt: skip

    run_id = api.launch(somebody(), asked())["id"]

    (line,) = Run(Execution.objects.get(run_id=run_id).pk, somebody()).lines("system")
    assert (line["source"], line["level"], line["text"]) == ("execution", "info", "region eu")
    assert "attempt" not in line


def test_equal_launches_share_their_snapshot(suites, worker: Worker):
    for _ in range(2):
        api.launch(somebody(), asked())
    assert (Execution.objects.count(), Snapshot.objects.count()) == (2, 1)


@pytest.mark.parametrize(
    ("facts", "refusal"),
    [
        ({"suite_id": "nope", "profile": "nope", "backend": "nope"}, SuiteNotFound),
        ({"profile": "nope.yaml", "backend": "nope"}, ProfileNotInSuite),
        ({"backend": "nope"}, BackendUnknown),
    ],
)
def test_checks_come_in_their_order_and_store_nothing(suites, worker: Worker, facts, refusal):
    with pytest.raises(refusal):
        api.launch(somebody(), asked(**facts))
    assert not Execution.objects.exists()


def test_a_suite_that_does_not_resolve_is_refused(settings, worker: Worker):
    write_suite(settings.SUITES_DIR, "hello", "task.run(nope = 1)", {})
    with pytest.raises(TopologyInvalid):
        api.launch(somebody(), asked())


def test_an_unknown_secret_provider_is_refused(settings, worker: Worker):
    text = PROFILE + "secretRefs: [{key: T, provider: cupboard, ref: a}]\n"
    write_suite(settings.SUITES_DIR, "hello", SUITE, {"ci.yaml": text})
    with pytest.raises(ProfileInvalid, match="cupboard"):
        api.launch(somebody(), asked())


def test_without_an_online_supervisor_there_is_no_backend(suites):
    with pytest.raises(BackendUnavailable):
        api.launch(somebody(), asked())


def test_a_runtime_that_does_not_answer_is_no_backend(suites, worker: Worker):
    agents.Agent.objects.update(runtime_available=False)
    with pytest.raises(BackendUnavailable):
        api.launch(somebody(), asked(backend="local-docker"))


def test_a_full_queue_refuses(suites, worker: Worker, settings):
    settings.EXECUTION_MAX_QUEUED = 1
    api.launch(somebody(), asked())
    with pytest.raises(QueueFull):
        api.launch(somebody(), asked())


def keyed(principal: Any, body: bytes = b"{}", key: str = "k") -> Idempotency:
    return Idempotency(
        principal=principal.key, method="POST", path="/api/v1/executions", key=key, body=body
    )


def test_a_repeated_key_gets_the_first_answer(suites, worker: Worker):
    """Invariant 32: two runs for one Idempotency-Key."""
    principal = somebody()
    first = launch_once(principal, asked(), idempotency=keyed(principal))
    again = launch_once(principal, asked(), idempotency=keyed(principal))
    assert (first.replayed, again.replayed) == (False, True)
    assert again.summary == first.summary
    assert Execution.objects.count() == 1


def test_a_key_with_another_body_is_refused(suites, worker: Worker):
    principal = somebody()
    launch_once(principal, asked(), idempotency=keyed(principal))
    with pytest.raises(IdempotencyKeyReused):
        launch_once(principal, asked(), idempotency=keyed(principal, b'{"a":1}'))


def test_a_key_of_another_principal_is_another_key(suites, worker: Worker):
    """Invariant 32: a stored answer given to another principal."""
    for _ in range(2):
        principal = somebody()
        assert not launch_once(principal, asked(), idempotency=keyed(principal)).replayed


def test_a_key_is_forgotten_after_a_day(suites, worker: Worker):
    principal = somebody()
    launch_once(principal, asked(), idempotency=keyed(principal))
    IdempotencyKey.objects.update(created_at=clock.now() - timedelta(hours=25))
    assert not launch_once(principal, asked(), idempotency=keyed(principal)).replayed


@pytest.mark.store
def test_two_at_once_with_one_key_make_one_run(suites, worker: Worker):
    """Invariant 32."""
    principal = somebody()

    def launch() -> Launched:
        return launch_once(principal, asked(), idempotency=keyed(principal))

    answers = at_once([launch] * 4)

    assert len({answer.summary["id"] for answer in answers}) == 1
    assert sorted(answer.replayed for answer in answers) == [False, True, True, True]
    assert Execution.objects.count() == 1


def test_admission_is_first_come_first_served_up_to_the_limit(settings, worker: Worker):
    settings.EXECUTION_MAX_ACTIVE = 2
    runs = [queued_run(node("a")) for _ in range(3)]
    dispatch()
    assert [run.status for run in runs] == ["Booting", "Booting", "Queued"]

    worker.claim(1)
    worker.end("a")
    dispatch()
    assert [run.status for run in runs] == ["Healthy", "Booting", "Booting"]


def test_admission_takes_turns_between_workspaces(settings):
    settings.EXECUTION_MAX_ACTIVE = 3
    busy, quiet = somebody(), somebody()
    first = [queued_run(node("a"), principal=busy) for _ in range(3)]
    second = [queued_run(node("a"), principal=quiet) for _ in range(2)]
    dispatch()
    assert [run.status for run in first] == ["Booting", "Booting", "Queued"]
    assert [run.status for run in second] == ["Booting", "Queued"]


@pytest.mark.store
def test_two_dispatchers_at_once_do_not_admit_too_many(settings):
    settings.EXECUTION_MAX_ACTIVE = 2
    for _ in range(5):
        queued_run(node("a"))

    at_once([dispatch] * 4)

    assert Execution.objects.filter(status="Booting").count() == 2


def test_a_backend_that_is_gone_since_the_launch_fails_the_run(settings, tmp_path):
    run = queued_run(node("a"))
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"
    settings.PLATFORM_SETTINGS_FILE.write_text(
        "agents: [{agentId: other, name: Other, type: local}]\n"
    )
    dispatch()
    assert (run.status, run.row.reason) == ("Failed", "backend_unavailable")
