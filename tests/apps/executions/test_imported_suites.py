"""Runs of suites that import others: each step has the files and secrets of its own suite."""

from __future__ import annotations

import gzip
import io
import tarfile

from apps.executions import api
from apps.executions.models import Blob, Execution
from apps.executions.services.storage import remove_old_runs
from apps.profiles.api import SecretRef
from apps.suites.domain.flat_topology import ImportedSuite
from kernel import clock
from kernel.agent_protocol import job_of
from tests.apps.executions.runs import Worker, booted_run, node, profile, secret


def imported(path: str, suite_id: str, *secrets: SecretRef, version: str = "") -> ImportedSuite:
    return ImportedSuite(
        path=path,
        suite_id=suite_id,
        title=suite_id.capitalize(),
        repository=f"workspace/{suite_id}",
        version=version or "workspace",
        digest=version,
        files={"suite.star": f"{suite_id}{version}".encode()},
        secret_refs=secrets,
    )


def contents_of(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(archive))) as files:
        found = {name: files.extractfile(name) for name in files.getnames()}
        return {name: file.read() for name, file in found.items() if file}


def test_each_step_sees_the_files_of_its_own_suite(worker: Worker):
    booted_run(
        node("own"),
        node("pay/api", sourceSuiteId="payments"),
        node("pay/db/pg", sourceSuiteId="database"),
        files={"suite.star": b"demo"},
        imports=(imported("pay", "payments"), imported("pay/db", "database")),
    )
    worker.claim()

    seen = {}
    for step, spec in worker.jobs.items():
        content = api.source_content(worker.supervisor, job_of(spec))
        assert len(content) == spec["content"]["size"]
        assert set(spec["content"]) == {"digest", "size"}
        seen[step] = contents_of(content)["suite.star"]
    assert seen == {"own": b"demo", "pay/api": b"payments", "pay/db/pg": b"database"}
    assert Blob.objects.count() == 1


def test_two_versions_of_a_suite_in_one_run_have_their_own_files(worker: Worker):
    booted_run(
        node("old/api", sourceSuiteId="payments"),
        node("new/api", sourceSuiteId="payments"),
        node("own", sourceSuiteId="demo"),
        files={"suite.star": b"demo"},
        imports=(
            imported("old", "payments", version="1"),
            imported("new", "payments", version="2"),
        ),
    )
    worker.claim()

    seen = {
        step: contents_of(api.source_content(worker.supervisor, job_of(spec)))["suite.star"]
        for step, spec in worker.jobs.items()
    }
    assert seen == {"old/api": b"payments1", "new/api": b"payments2", "own": b"demo"}


def test_the_files_of_an_import_go_with_the_last_run_that_has_them():
    first, second = (
        booted_run(
            node("pay/api", sourceSuiteId="payments"),
            files={"suite.star": b"demo"},
            imports=(imported("pay", "payments"),),
        )
        for _ in range(2)
    )

    for run, left in ((first, 1), (second, 0)):
        Execution.objects.filter(run_id=run.id).update(deleted_at=clock.now())
        assert remove_old_runs() == 1
        assert Blob.objects.count() == left


def test_secrets_of_an_import_reach_its_steps_only(worker: Worker, monkeypatch):
    for name in ("MINE", "INNER", "DEEP"):
        monkeypatch.setenv(f"PARTITA_SECRET_{name}", f"secret-{name.lower()}")
    booted_run(
        node("own"),
        node("pay/api", sourceSuiteId="payments"),
        node("pay/db/pg", sourceSuiteId="database"),
        with_profile=profile(secret_refs=(secret("A", ref="mine"),)),
        imports=(
            imported("pay", "payments", secret("B", ref="inner")),
            imported("pay/db", "database", secret("B", ref="deep"), secret("C", ref="deep")),
        ),
    )
    worker.claim()

    keys = {step: spec["secretKeys"] for step, spec in worker.jobs.items()}
    assert keys == {"own": ["A"], "pay/api": ["A", "B"], "pay/db/pg": ["A", "B", "C"]}
    assert worker.jobs["pay/db/pg"]["env"]["B"] == "secret-inner"
    assert worker.jobs["pay/api"]["env"]["A"] == "secret-mine"


def test_a_secret_of_an_import_that_does_not_resolve_fails_the_run():
    run = booted_run(
        node("pay/api", sourceSuiteId="payments"),
        imports=(imported("pay", "payments", secret("PSP", provider="vault", ref="psp#token")),),
    )

    assert (run.status, run.row.reason) == ("Failed", "secret_unresolved")
    assert "PSP" in run.row.reason_detail
