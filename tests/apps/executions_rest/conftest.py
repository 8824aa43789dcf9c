from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from apps.accounts import selectors as accounts_memory
from apps.accounts.models import User
from apps.accounts.services.administrators import ensure_seed_admin
from apps.accounts.services.sign_up import sign_up
from apps.accounts.services.token_pairs import issue_tokens
from apps.executions.domain.events import events_topic, logs_topic
from apps.executions.models import Artifact, Blob, Execution, Snapshot, Step
from apps.streams import api as streams
from kernel import clock
from kernel.ids import new_execution_id, new_job_id, new_uuid

Node = dict[str, Any]
PASSWORD = "Correct-Horse-1"


@dataclass
class Caller:
    """Somebody who calls the API with an access token."""

    user: User
    token: str
    client: Client = field(default_factory=Client)

    @property
    def workspace_id(self) -> UUID:
        return self.user.workspace_id

    @property
    def bearer(self) -> str:
        return f"Bearer {self.token}"

    def get(self, path: str, query: Any = None, **headers: str) -> Any:
        return self.client.get(f"/api/v1/{path}", query, headers=self._headers(headers))

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.client.post(
            f"/api/v1/{path}",
            {} if body is None else body,
            content_type="application/json",
            headers=self._headers(headers),
        )

    def delete(self, path: str, **headers: str) -> Any:
        return self.client.delete(f"/api/v1/{path}", headers=self._headers(headers))

    def _headers(self, more: dict[str, str]) -> dict[str, str]:
        return {"Authorization": self.bearer} | more


def caller(user: User) -> Caller:
    return Caller(user, issue_tokens(user).token)


@pytest.fixture(autouse=True)
def _nobody_remembered() -> None:
    accounts_memory._cache.clear()


@pytest.fixture
def ada(db) -> Caller:
    """A member."""
    return caller(sign_up(full_name="Ada", email="ada@example.org", password=PASSWORD))


@pytest.fixture
def bob(db) -> Caller:
    """A member of another workspace."""
    return caller(sign_up(full_name="Bob", email="bob@example.org", password=PASSWORD))


@pytest.fixture
def admin(db) -> Caller:
    ensure_seed_admin("root@example.org", "swordfish")
    return caller(User.objects.get(email="root@example.org"))


def node(id_: str, *, needs: Sequence[str] = (), kind: str = "task", level: int = 0) -> Node:
    """A topology node as on the wire."""
    return {
        "id": id_,
        "name": id_,
        "kind": kind,
        "variant": kind,
        "level": level,
        "dependsOn": list(needs),
        "after": list(needs),
        "onFailure": [],
        "continueOnFailure": False,
        "idempotent": False,
        "retries": 0,
        "timeoutMs": 1000,
    }


SHOP = (
    node("db", kind="service"),
    node("seed", needs=["db"], level=1),
    node("check", needs=["seed", "db"], kind="test", level=2),
)


def definition(topology: Sequence[Node]) -> dict[str, Any]:
    return {
        "id": "shop",
        "title": "Shop",
        "repository": "example/shop",
        "version": "1.0.0",
        "suiteStar": "service.run('db')",
        "profiles": [],
        "folders": [],
        "sourceFiles": [
            {"path": "suite.star", "language": "starlark", "size": 3, "content": "abc"}
        ],
        "topology": list(topology),
        "resolvedDependencies": [],
        "apiSurfaces": [],
    }


def snapshot(topology: Sequence[Node] = SHOP) -> Snapshot:
    document = {"suite": definition(topology), "profile": {"observability": {}}, "contents": {}}
    packed = zlib.compress(json.dumps(document).encode())
    return Snapshot.objects.create(
        digest=f"sha256:{new_uuid().hex * 2}", document=packed, created_at=clock.now()
    )


def make_run(
    workspace_id: UUID, *, topology: Sequence[Node] = SHOP, statuses: Any = (), **fields: Any
) -> Execution:
    """A stored run with a step per node; `statuses` are those of its first steps."""
    now = clock.now()
    defaults: dict[str, Any] = {
        "run_id": new_execution_id(),
        "workspace_id": workspace_id,
        "owner_id": new_uuid(),
        "suite_id": "shop",
        "suite_title": "Shop",
        "suite_repository": "example/shop",
        "profile": "default.yaml",
        "backend_id": "local-docker",
        "backend_label": "Local Docker",
        "backend_kind": "local",
        "trigger": "Manual",
        "author": "Ada",
        "status": "Booting",
        "started_at": now - timedelta(seconds=65),
        "updated_at": now,
        "total_steps": len(topology),
    }
    row = Execution.objects.create(**{**defaults, "snapshot": snapshot(topology), **fields})
    Step.objects.bulk_create(
        Step(
            execution=row,
            index=index,
            step_id=one["id"],
            name=one["name"],
            kind=one["kind"],
            variant=one["variant"],
            level=one["level"],
            status=status,
            job_id=new_job_id(),
            backend_id=row.backend_id,
        )
        for index, (one, status) in enumerate(
            zip(topology, [*statuses, *["pending"] * len(topology)], strict=False), start=1
        )
    )
    open_streams(row.run_id)
    return row


@streams.unit_of_work
def open_streams(run_id: str) -> None:
    streams.open_topics([events_topic(run_id), logs_topic(run_id)])


@streams.unit_of_work
def write_lines(run_id: str, source: str, texts: Sequence[str], **facts: str) -> None:
    """Log lines of one source, 1,000 a chunk."""
    line = {"source": source, "timestamp": "00:01", "time": "2026-01-02T03:04:05.678Z"}
    line |= {"level": "info", "kind": "output", **facts}
    records = [json.dumps(line | {"text": text}).encode() for text in texts]
    pieces = [records[start : start + 1000] for start in range(0, len(records), 1000)]
    streams.append([streams.Batch(logs_topic(run_id), source, piece) for piece in pieces])


@streams.unit_of_work
def write_event(run_id: str, source: str, what: str, status: str) -> None:
    event = {
        "id": f"{source}-{what}",
        "source": source,
        "timestamp": "00:01",
        "time": "2026-01-02T03:04:05.678Z",
        "text": f"{source} is {what}",
        "status": status,
        "level": "info",
    }
    record = json.dumps(event).encode()
    streams.append([streams.Batch(events_topic(run_id), source, [record])])


@streams.unit_of_work
def end_streams(run_id: str, status: str) -> None:
    streams.close_topic(events_topic(run_id), status)
    streams.close_topic(logs_topic(run_id), status)


def make_artifact(row: Execution, body: bytes, **fields: Any) -> Artifact:
    digest = hashlib.sha256(body).hexdigest()
    Blob.objects.get_or_create(sha256=digest, defaults={"size": len(body), "data": body})
    defaults = {
        "artifact_id": "check-report-raw",
        "step_id": "check",
        "step_name": "check",
        "attempt": 1,
        "path": "out/report.txt",
        "on": "success",
        "format": "raw",
        "media_type": "text/plain",
        "size": len(body),
        "sha256": digest,
        "created_at": clock.now(),
    }
    return Artifact.objects.create(execution=row, **{**defaults, **fields})
