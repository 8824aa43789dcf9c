"""The end of artifacts whose runs stay, and `run artifacts`."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from apps.executions import api
from apps.executions.models import Artifact, Blob, Execution
from apps.executions.selectors.artifact_files import artifact_file
from apps.executions.selectors.junit_report import junit_document
from apps.executions.services.artifact_retention import expire_artifacts
from kernel import clock
from tests.apps.executions.runs import Run, Worker, booted_run, node
from tests.apps.executions.test_artifacts import EXPORTS, RED, junit, store
from tests.support.client_views import TypedWords, ask_views_as

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _an_hour(settings: Any) -> None:
    settings.EXECUTION_ARTIFACT_RETENTION_S = 3600.0


def ended_run(worker: Worker, *bodies: bytes, hours_ago: float = 2, **facts: Any) -> Run:
    run = booted_run(node("a", artifactExports=EXPORTS), **facts)
    worker.claim()
    for number, body in enumerate(bodies):
        store(worker, "a", body, path=f"{number}.txt")
    worker.end("a")
    then = clock.now() - timedelta(hours=hours_ago)
    Execution.objects.filter(pk=run.pk).update(finished_at=then)
    Artifact.objects.filter(execution_id=run.pk).update(created_at=then)
    return run


def bodies() -> set[bytes]:
    return {bytes(blob.data) for blob in Blob.objects.all()}


def test_bytes_go_and_rows_say_so(worker: Worker) -> None:
    run = ended_run(worker, b"one", b"two")

    assert expire_artifacts() == 2
    assert expire_artifacts() == 0

    assert bodies() == set()
    artifacts = api.detail(run.principal, run.id)["artifacts"]
    assert all("expiredAt" in each for each in artifacts)
    with pytest.raises(Exception, match="removed after the retention time"):
        artifact_file(run.principal, run.id, artifacts[0]["id"])


def test_bytes_stay_while_a_younger_run_has_them(worker: Worker) -> None:
    ended_run(worker, b"both", b"old")
    ended_run(worker, b"both", hours_ago=0.5)

    assert expire_artifacts() == 2

    assert bodies() == {b"both"}


def test_bytes_that_expired_are_stored_again_with_the_next_run(worker: Worker) -> None:
    ended_run(worker, b"one")
    expire_artifacts()

    run = ended_run(worker, b"one", hours_ago=0)

    artifact = api.detail(run.principal, run.id)["artifacts"][0]
    assert artifact["content"] == "one"
    assert artifact_file(run.principal, run.id, artifact["id"]).body == b"one"


def test_a_run_that_goes_on_and_a_kept_environment_keep_their_files(worker: Worker) -> None:
    kept = ended_run(worker, b"kept")
    later = clock.now() + timedelta(hours=1)
    Execution.objects.filter(pk=kept.pk).update(keep_alive_until=later)
    going = booted_run(node("b"))
    worker.claim()
    store(worker, "b", b"going")
    Artifact.objects.filter(execution_id=going.pk).update(
        created_at=clock.now() - timedelta(hours=5)
    )

    assert expire_artifacts() == 0

    Execution.objects.filter(pk=kept.pk).update(keep_ended_at=clock.now())
    assert expire_artifacts() == 1


def test_without_a_shorter_time_nothing_expires(worker: Worker, settings: Any) -> None:
    settings.EXECUTION_ARTIFACT_RETENTION_S = settings.EXECUTION_RETENTION_S
    ended_run(worker, b"one", hours_ago=10_000)

    assert expire_artifacts() == 0


def test_the_failed_cases_of_an_expired_report_are_left_out(worker: Worker) -> None:
    run = booted_run(node("unit", kind="test", artifactExports=EXPORTS))
    worker.claim()
    junit(worker, "unit", RED)
    worker.end("unit")
    then = clock.now() - timedelta(hours=2)
    Execution.objects.update(finished_at=then)
    Artifact.objects.update(created_at=then)
    expire_artifacts()

    assert api.failed_cases(run.principal, run.id) == []
    assert api.detail(run.principal, run.id)["verdict"]["sentence"]
    assert b'name="unit"' in junit_document(run.principal, run.id)


def command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    return TypedWords(capsys)("run", "artifacts", *words)


def test_the_command_lists_files(
    capsys: pytest.CaptureFixture[str], worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ended_run(worker, b"one")
    ask_views_as(monkeypatch, run.principal)

    code, out, _ = command(capsys, run.id)

    assert code == 0
    assert out.splitlines()[0].split() == ["STEP", "ATTEMPT", "FORMAT", "BYTES", "TIME", "FILE"]
    row = out.splitlines()[1].split()
    assert (row[:4], row[-1]) == (["a", "1", "raw", "3"], "0.txt")
    document = json.loads(command(capsys, run.id, "-o", "json")[1])
    assert document["artifacts"][0]["path"] == "0.txt"
