"""What a run keeps, until it is removed: its snapshot and the files of its suite.

Snapshots and bytes are stored once under the digest of their content. A snapshot goes with the last
run that needs it, bytes go with the last artifact or snapshot that names them.

Whoever needs a stored row, and who looks whether somebody does, changes its `used_at` first. So of
a launch and a removal at the same moment, one sees the other, waits for it (PostgreSQL), or is
repeated (MongoDB, where only a value that differs is a write).
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Final
from uuid import UUID

from django.db.models import Q, QuerySet

from apps.accounts.api import Principal, Role
from apps.executions import conf
from apps.executions.domain.agent_reports import ContentNotFound, JobNotFound, SupervisorSession
from apps.executions.domain.events import OVERVIEW_NUDGE, events_topic, logs_topic
from apps.executions.domain.repeats import repeat_topic
from apps.executions.domain.runs import ExecutionActive
from apps.executions.domain.states import FINAL_EXECUTION
from apps.executions.models import Artifact, Blob, Execution, Snapshot, Step, StepRepeat
from apps.executions.selectors.definitions import (
    archive_of,
    content_key,
    run_definition,
)
from apps.executions.selectors.detail import RunDetail, detail
from apps.executions.selectors.kept_environments import KEPT
from apps.executions.selectors.runs import get_execution
from apps.executions.services.agent_reports import refuse_stale
from apps.executions.services.artifact_objects import held_bytes, mark_objects_removed
from apps.executions.services.stored_files import remove_unused_blobs, store_blob
from apps.executions.storages.store import use
from apps.mocks.api import forget_spaces
from apps.profiles.api import LaunchProfile, SecretRefDocument
from apps.streams.api import (
    DatastoreUnavailable,
    LostRace,
    delete_topics,
    nudge,
    unit_of_work,
)
from apps.suites.api import ResolvedSuite
from kernel import clock
from kernel.agent_protocol import Job
from readers.archive import pack


def source_content(supervisor: SupervisorSession, job: Job) -> bytes:
    """Return the files of the step's suite as tar.gz.

    Raise JobNotFound, StaleAttempt or ContentNotFound.
    """
    step = Step.objects.select_related("execution").filter(job_id=job.job_id).first()
    if step is None:
        raise JobNotFound
    refuse_stale(step, supervisor, job.attempt)
    definition = run_definition(step.execution.snapshot_id)
    content = definition.content(step.index - 1)
    if content is None:
        raise ContentNotFound
    return archive_of(step.execution.snapshot_id, content)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedSuite:
    """A snapshot before it is stored; `archive` has the files as tar.gz, or is empty.

    The archives of imported suites follow that of the suite, at the offsets in `contents`.
    `archive_sha256` is 64 hex digits, or empty without an archive.
    """

    digest: str
    document: bytes
    archive: bytes
    archive_sha256: str


def packed_suite(suite: ResolvedSuite, profile: LaunchProfile) -> PackedSuite:
    """Pack a suite and a profile; equal ones give equal bytes."""
    archive, contents = archives_of(suite)
    document = json.dumps(
        {
            "suite": _without_file_contents(suite),
            "profile": _profile_document(suite, profile),
            "contents": contents,
            **_secrets_of_imports(suite),
            **mocks_of(suite),
        },
        sort_keys=True,
        separators=(",", ":"),
    ).encode()
    return PackedSuite(
        digest=f"sha256:{hashlib.sha256(document).hexdigest()}",
        document=zlib.compress(document),
        archive=archive,
        archive_sha256=hashlib.sha256(archive).hexdigest() if archive else "",
    )


def archives_of(suite: ResolvedSuite) -> tuple[bytes, dict[str, dict[str, object]]]:
    """Return the archives of a suite and its imports as one, and the place of each by suite id.

    Another version of a suite that is there already has its place by the path of its import.
    """
    files, digests = {suite.id: suite.files}, {suite.id: suite.content_digest}
    for each in suite.imports:
        differs = digests.setdefault(each.suite_id, each.digest) != each.digest
        files[content_key(each.path) if differs else each.suite_id] = each.files
    whole, contents = b"", dict[str, dict[str, object]]()
    for suite_id, own in files.items():
        archive = pack(own) if own else b""
        if archive:
            digest = hashlib.sha256(archive).hexdigest()
            contents[suite_id] = {"digest": f"sha256:{digest}", "size": len(archive)}
            if whole:
                contents[suite_id]["offset"] = len(whole)
            whole += archive
    return whole, contents


def stored_archive(sha256: str) -> bytes:
    """Return the files of a snapshot; raise ContentNotFound."""
    data = Blob.objects.filter(sha256=sha256).values_list("data", flat=True).first()
    if data is None:
        raise ContentNotFound
    return bytes(data)


def _secrets_of_imports(
    suite: ResolvedSuite,
) -> dict[str, dict[str, list[SecretRefDocument]]]:
    """Return the secretRefs of imported suites by the path of the import, if there are any."""
    found = {
        each.path: [reference.as_dict() for reference in each.secret_refs]
        for each in suite.imports
        if each.secret_refs
    }
    return {"secretRefsOfImports": found} if found else {}


def mocks_of(suite: ResolvedSuite) -> dict[str, dict[str, dict[str, str]]]:
    """Return the surfaces of the mock nodes, with their adapters, if there are any."""
    mocks = {node_id: dict(surfaces) for node_id, surfaces in suite.mocks.items()}
    return {"mocks": mocks} if mocks else {}


def store_snapshot(packed: PackedSuite) -> Snapshot:
    """Return the row of a snapshot, stored if there is none; `keep_snapshot` uses it."""
    snapshot, _ = Snapshot.objects.get_or_create(
        digest=packed.digest,
        defaults={
            "document": packed.document,
            "archive_sha256": packed.archive_sha256,
            "created_at": clock.now(),
        },
    )
    return snapshot


def keep_snapshot(snapshot: Snapshot, packed: PackedSuite) -> None:
    """Use a snapshot and its archive, which is stored if there is none.

    Comes last in a launch: on PostgreSQL, other launches of the suite wait from here until its
    commit. Raise LostRace if the snapshot was removed meanwhile.
    """
    changes = {"archive_sha256": packed.archive_sha256}  # an older process may have stored it
    if not use(Snapshot.objects.filter(pk=snapshot.pk), **changes):
        raise LostRace
    if packed.archive:
        store_blob(packed.archive_sha256, packed.archive)


def _without_file_contents(suite: ResolvedSuite) -> dict[str, object]:
    sources = [
        {key: value for key, value in source.items() if key != "content"}
        for source in suite.definition.get("sourceFiles", ())
    ]
    return {**suite.definition, "sourceFiles": sources, "topology": list(suite.topology)}


def default_keep_ms(suite: ResolvedSuite, profile: LaunchProfile) -> int:
    """Return how long the environment of a failed run stays, as the profile or the suite says."""
    own = profile.keep_on_failure_ms
    return suite.keep_on_failure_ms if own is None else own


def _profile_document(suite: ResolvedSuite, profile: LaunchProfile) -> dict[str, object]:
    return {
        "fileName": profile.file_name,
        "label": profile.label,
        "env": dict(profile.env),
        "services": {step: dict(env) for step, env in profile.services.items()},
        "secretRefs": [asdict(reference) for reference in profile.secret_refs],
        "observability": dict(profile.observability),
        **({"keepOnFailureMs": keep_ms} if (keep_ms := default_keep_ms(suite, profile)) else {}),
    }


_TRIES: Final = 5  # to delete a run that changes meanwhile
_BATCH: Final = 20  # runs that one transaction removes
_FINAL: Final = [str(status) for status in FINAL_EXECUTION]


def delete(
    principal: Principal, run_id: str, *, require: Callable[[RunDetail], None] | None = None
) -> None:
    """Hide a finished run from all readers; `remove_old_runs` removes its rows later.

    `require` gets the Detail and may raise to keep the run. It is asked outside of the transaction,
    as a Detail may need the storage of artifacts, and again if the run changed meanwhile.
    Raise ExecutionNotFound, ExecutionActive or DatastoreUnavailable.
    """
    for _ in range(_TRIES):
        execution = _deletable_run(principal, run_id)
        if require:
            require(detail(principal, run_id))
        if _hide(execution):
            return
    raise DatastoreUnavailable("the run changed each time; try again")


def _deletable_run(principal: Principal, run_id: str) -> Execution:
    execution = get_execution(principal, run_id)
    principal.require(Role.RUNNER)
    if execution.status not in _FINAL:
        raise ExecutionActive("the execution has not finished; cancel it first")
    if execution.has_kept_environment:
        raise ExecutionActive("its environment is kept; end that first")
    return execution


@unit_of_work
def _hide(execution: Execution) -> bool:
    """Hide the run; return False if it is not the version that was read."""
    same = Execution.objects.filter(pk=execution.pk, version=execution.version, deleted_at=None)
    if not same.filter(status__in=_FINAL).update(deleted_at=clock.now()):
        return False
    nudge(OVERVIEW_NUDGE)
    return True


def releasable_runs(run_ids: Iterable[str]) -> list[str]:
    """Return the runs whose containers, networks and volumes can go.

    They are over, deleted or unknown, and nobody keeps their environment.
    """
    asked = list(run_ids)
    runs = Execution.objects.filter(run_id__in=asked)
    needed = runs.filter(~Q(status__in=_FINAL) | KEPT)
    kept = set(needed.values_list("run_id", flat=True))
    return [run_id for run_id in asked if run_id not in kept]


def remove_old_runs() -> int:
    """Remove deleted runs and runs older than the retention; return how many."""
    if _find_expired().exists():
        _mark_expired()
    removed = 0
    deleted = Execution.objects.filter(deleted_at__isnull=False).order_by("deleted_at")
    while batch := list(deleted.values_list("pk", "run_id", "snapshot_id")[:_BATCH]):
        _remove(batch)
        removed += len(batch)
    return removed


@unit_of_work
def _mark_expired() -> None:
    _find_expired().update(deleted_at=clock.now())
    nudge(OVERVIEW_NUDGE)


def _find_expired() -> QuerySet[Execution, Execution]:
    before = clock.now() - conf.retention()
    over = Execution.objects.filter(status__in=_FINAL, finished_at__lt=before, deleted_at=None)
    return over.exclude(KEPT)


@unit_of_work
def _remove(runs: Sequence[tuple[UUID, str, UUID]]) -> None:
    pks = [pk for pk, _, _ in runs]
    repeats = StepRepeat.objects.filter(execution_id__in=pks)
    topics = [topic(run_id) for _, run_id, _ in runs for topic in (events_topic, logs_topic)]
    delete_topics([*topics, *map(repeat_topic, repeats.values_list("repeat_id", flat=True))])
    artifacts = Artifact.objects.filter(execution_id__in=pks)
    # first a write: a move of these rows waits for it, or was before it and is read
    artifacts.update(expired_at=clock.now())
    hashes, objects = held_bytes(artifacts)
    hashes |= set(repeats.exclude(content_sha256="").values_list("content_sha256", flat=True))
    artifacts.delete()
    repeats.delete()
    Step.objects.filter(execution_id__in=pks).delete()
    Execution.objects.filter(pk__in=pks).delete()
    forget_spaces([run_id for _, run_id, _ in runs])
    hashes |= _remove_unused_snapshots({snapshot_pk for _, _, snapshot_pk in runs})
    _name_archives()
    remove_unused_blobs(hashes)
    mark_objects_removed(objects)


def _remove_unused_snapshots(pks: set[UUID]) -> set[str]:
    """Remove those that no run has; return the digests of their archives."""
    _name_archives()
    use(Snapshot.objects.filter(pk__in=pks))
    used = Execution.objects.filter(snapshot_id__in=pks).values_list("snapshot_id", flat=True)
    unused = Snapshot.objects.filter(pk__in=pks - set(used))
    archives = {sha256 for sha256 in unused.values_list("archive_sha256", flat=True) if sha256}
    unused.delete()
    return archives


def _name_archives() -> None:
    """Fill `archive_sha256` of the snapshots that an older process stored during an upgrade."""
    unnamed = Snapshot.objects.filter(archive_sha256=None)
    for pk in list(unnamed.values_list("pk", flat=True)):
        contents = run_definition(pk).contents.values()
        digest = next((content["digest"] for content in contents), "")
        Snapshot.objects.filter(pk=pk).update(archive_sha256=digest.removeprefix("sha256:"))
