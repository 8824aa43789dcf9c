"""Files of runs in a folder or a bucket."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from datetime import timedelta
from typing import cast

import pytest
from django.core.files.storage import storages

from apps.executions import api
from apps.executions.domain.artifact_storage import FoundObject, ListedStorage
from apps.executions.models import Artifact, Execution
from apps.executions.selectors.artifact_files import artifact_file
from apps.operations.api import installation_id
from kernel import clock
from tests.apps.executions.runs import Run, Worker, booted_run, node
from tests.apps.executions.test_artifacts import EXPORTS, junit, store

BIG = bytes(range(256)) * 1_000
everywhere = pytest.mark.parametrize("url", ["disk", "s3"], indirect=True)


def objects() -> list[FoundObject]:
    """What the configured storage has of this installation."""
    storage = cast(ListedStorage, storages["artifacts"])
    return list(storage.list_objects(installation_id(), "", 1_000))


def uploaded(worker: Worker, *bodies: bytes) -> Run:
    run = booted_run(node("a", artifactExports=EXPORTS))
    worker.claim()
    for number, body in enumerate(bodies):
        store(worker, "a", body, path=f"{number}.txt")
    return run


def unzip(parts: Iterable[bytes]) -> dict[str, bytes]:
    """Return the files of an archive that was sent in parts."""
    with zipfile.ZipFile(io.BytesIO(b"".join(parts))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def file_of(run: Run, number: int = 0) -> bytes:
    artifact = api.detail(run.principal, run.id)["artifacts"][number]
    return artifact_file(run.principal, run.id, artifact["id"]).body


def age(run: Run, **hours: float) -> None:
    then = clock.now() - timedelta(**hours)
    Execution.objects.filter(pk=run.pk).update(finished_at=then)
    Artifact.objects.filter(execution_id=run.pk).update(created_at=then)


def long_report(worker: Worker, more: bytes = b"") -> Run:
    """Return a run that has ended, whose report of 5,000 cases is too long for its row."""
    cases = b"".join(b"<testcase name='%d'/>" % number for number in range(5_000))
    run = booted_run(node("unit", kind="test", artifactExports=EXPORTS))
    worker.claim()
    junit(worker, "unit", b"<testsuite>" + cases + more + b"</testsuite>")
    worker.end("unit")
    return run
