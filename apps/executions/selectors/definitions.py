"""What never changes about a run, hence is cached: its snapshot, and the keys of its steps."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import Any, Final, Generic, NotRequired, TypedDict, TypeVar
from uuid import UUID

from apps.executions.domain.plan import RunPlan, plan_of
from apps.executions.domain.steps import StepEdges, mock_fault, step_edges
from apps.executions.models import Blob, Execution, Snapshot, Step

K = TypeVar("K")
V = TypeVar("V")
JobIndex = tuple[UUID, int]  # primary key of the run, index of the step


class BoundedCache(Generic[K, V]):
    """Keeps the `limit` values that were added last, for any thread."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: dict[K, V] = {}
        self._lock = Lock()

    def get_many(self, keys: Iterable[K], read: Callable[[set[K]], Mapping[K, V]]) -> dict[K, V]:
        """Return the values of these keys; `read` is called once for those that are missing."""
        wanted = set(keys)
        with self._lock:
            known = {key: self._values[key] for key in wanted & self._values.keys()}
        if missing := wanted - known.keys():
            found = read(missing)
            self.add(found)
            known |= found
        return known

    def add(self, values: Mapping[K, V]) -> None:
        with self._lock:
            self._values.update(values)
            for key in list(self._values)[: -self._limit]:
                del self._values[key]

    def clear(self) -> None:
        with self._lock:
            self._values.clear()


_edges: Final[BoundedCache[UUID, Mapping[str, StepEdges]]] = BoundedCache(256)
_indexes: Final[BoundedCache[str, JobIndex]] = BoundedCache(20_000)
_snapshots: Final[BoundedCache[UUID, UUID]] = BoundedCache(1_024)  # of runs


def content_key(import_path: str) -> str:
    """Return the key of the files of one import, which is no suite id."""
    return f"/{import_path}"


class RunSnapshot(TypedDict):
    """A snapshot as stored; `RunDefinition` says what its parts have."""

    suite: Mapping[str, Any]
    profile: Mapping[str, Any]
    contents: Mapping[str, Mapping[str, Any]]
    secretRefsOfImports: NotRequired[Mapping[str, Sequence[Mapping[str, str]]]]
    mocks: NotRequired[Mapping[str, Mapping[str, str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDefinition:
    """A snapshot as planning and claims need it; `nodes` are wire nodes in topology order.

    `suite` has id, title, repository; `contents` source suite id → {digest, size, offset?}. Where
    a run has two versions of a suite, the second is there under the `content_key` of its import.
    `mocks` has the surfaces of each mock node, with their adapters, and `mock_faults` why a mock
    has nothing to serve, by the index of its node.
    """

    plan: RunPlan
    nodes: tuple[Mapping[str, Any], ...]
    suite: Mapping[str, str]
    profile: Mapping[str, Any]
    contents: Mapping[str, Mapping[str, Any]]
    secrets_of_imports: Mapping[str, Sequence[Mapping[str, str]]]
    mocks: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    mock_faults: Mapping[int, str] = field(default_factory=dict)

    def content(self, index: int) -> Mapping[str, Any] | None:
        """Return the place of the files that the step sees, None if its suite has none."""
        node = self.nodes[index]
        path = node["id"].rpartition("/")[0]
        return self.content_of(node.get("sourceSuiteId", self.suite["id"]), path)

    def content_of(self, suite_id: str, path: str) -> Mapping[str, Any] | None:
        """Return the place of the files of a suite that is imported at `path`, "" if it is not."""
        own = self.contents.get(content_key(path)) if path else None
        return own or self.contents.get(suite_id)

    def secret_refs(self, step_id: str) -> list[Mapping[str, str]]:
        """Return the secrets of a step: those of the launch and of the imports around it.

        Where several have a key, the suite that imports the other one decides.
        """
        by_key: dict[str, Mapping[str, str]] = {}
        path = step_id.rpartition("/")[0]
        while path:
            by_key |= {each["key"]: each for each in self.secrets_of_imports.get(path, ())}
            path = path.rpartition("/")[0]
        by_key |= {each["key"]: each for each in self.profile["secretRefs"]}
        return list(by_key.values())

    def all_secret_refs(self) -> list[Mapping[str, str]]:
        """Return every secret that a step of the run gets."""
        inner = self.secrets_of_imports.values()
        return [*self.profile["secretRefs"], *(each for own in inner for each in own)]


@lru_cache(maxsize=256)
def run_definition(snapshot_id: UUID) -> RunDefinition:
    document = _document(snapshot_id)
    suite = document["suite"]
    mocks = document.get("mocks", {})
    return RunDefinition(
        plan=plan_of(suite["topology"]),
        nodes=tuple(suite["topology"]),
        suite={key: suite[key] for key in ("id", "title", "repository")},
        profile=document["profile"],
        contents=document["contents"],
        secrets_of_imports=document.get("secretRefsOfImports", {}),
        mocks=mocks,
        mock_faults={
            index: fault
            for index, node in enumerate(suite["topology"])
            if node["kind"] == "mock" and (fault := mock_fault(mocks.get(node["id"], {})))
        },
    )


@lru_cache(maxsize=16)
def suite_of(snapshot_id: UUID) -> Mapping[str, Any]:
    """Return the suite definition at the time of the launch, as on the wire.

    (reference: control-plane 9)
    """
    return _document(snapshot_id)["suite"]


def edges_of(snapshot_ids: Iterable[UUID]) -> dict[UUID, Mapping[str, StepEdges]]:
    """Return snapshot id → step id → edges; one query for all snapshots that are not cached."""
    return _edges.get_many(snapshot_ids, _read_edges)


def _read_edges(snapshot_ids: set[UUID]) -> dict[UUID, Mapping[str, StepEdges]]:
    rows = Snapshot.objects.filter(pk__in=list(snapshot_ids)).values_list("pk", "document")
    return {pk: step_edges(_unpack(packed)["suite"]["topology"]) for pk, packed in rows}


def _document(snapshot_id: UUID) -> RunSnapshot:
    return _unpack(Snapshot.objects.values_list("document", flat=True).get(pk=snapshot_id))


def _unpack(packed: bytes | memoryview) -> RunSnapshot:
    document: RunSnapshot = json.loads(zlib.decompress(packed))
    return document


def archive_of(snapshot_id: UUID, content: Mapping[str, Any]) -> bytes:
    """Return the files at a place of `RunDefinition.contents` as tar.gz."""
    named = Snapshot.objects.values_list("archive_sha256", flat=True).get(pk=snapshot_id)
    sha256 = named or content["digest"].removeprefix("sha256:")
    stored = bytes(Blob.objects.values_list("data", flat=True).get(sha256=sha256))
    begin = content.get("offset", 0)
    return stored[begin : begin + content["size"]]


def definitions_of_runs(execution_pks: Iterable[UUID]) -> dict[UUID, RunDefinition]:
    """Return run → definition; at most one query for runs that were never loaded here."""
    found = _snapshots.get_many(execution_pks, _read_snapshots)
    return {pk: run_definition(snapshot_id) for pk, snapshot_id in found.items()}


def remember_snapshot(execution_pk: UUID, snapshot_id: UUID) -> None:
    _snapshots.add({execution_pk: snapshot_id})


def _read_snapshots(execution_pks: set[UUID]) -> dict[UUID, UUID]:
    rows = Execution.objects.filter(pk__in=list(execution_pks))
    return dict(rows.values_list("pk", "snapshot_id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepKeys:
    """Primary keys and job ids of the steps of a run, by index."""

    step_pks: tuple[UUID, ...]
    job_ids: tuple[str, ...]


@lru_cache(maxsize=512)
def step_keys(execution_pk: UUID) -> StepKeys:
    rows = Step.objects.filter(execution_id=execution_pk).order_by("index")
    found = list(rows.values_list("pk", "job_id"))
    _indexes.add({job_id: (execution_pk, index) for index, (_, job_id) in enumerate(found)})
    return StepKeys(step_pks=tuple(pk for pk, _ in found), job_ids=tuple(job for _, job in found))


def indexes_of_jobs(job_ids: Iterable[str]) -> dict[str, JobIndex]:
    """Return job id → (run, index of the step) without unknown jobs; at most one query."""
    return _indexes.get_many(job_ids, _read_indexes)


def _read_indexes(job_ids: set[str]) -> dict[str, JobIndex]:
    rows = Step.objects.filter(job_id__in=job_ids).values_list("job_id", "execution_id", "index")
    return {job_id: (execution_pk, number - 1) for job_id, execution_pk, number in rows}
