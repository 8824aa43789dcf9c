"""The orchestrator in a test: real Git and store, a sink in memory or any other, no broker."""

from __future__ import annotations

import json
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sync_stack.core.bundle.datasources import Datasource
from sync_stack.core.bundle.model import Bundle, SchemaRegistry
from sync_stack.core.bundle.platforms import Platform
from sync_stack.core.bundle.rules import Rule
from sync_stack.core.bundle.secret_managers import SecretManager
from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.core.sink import Sink
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.selectors import tasks
from sync_stack.orchestrator.services.deliveries import WebhookDelivery, accept_delivery
from sync_stack.orchestrator.services.execution.attempt import Ports
from sync_stack.orchestrator.services.execution.task_runner import run_task
from sync_stack.repositories import Repositories
from sync_stack.repositories.schemas import Schemas
from sync_stack.sinks.file import FileOptions
from tests.support.fake_sink import FakeSink, Layout
from tests.support.git_server import Repository

PUSH = "push"


def rule(**fields: Any) -> Rule:
    known: dict[str, Any] = {
        "name": "shop",
        "platform": "github",
        "datasource": "sink",
        "segment": "sink",
        "repositories": ("acme/*",),
        "file_name": "app.yaml",
        "branch_map": {"main": "production", "develop": "staging"},
        "destination_template": "{env}-{repo}",
        "retry_backoff_s": 0.0,
    }
    return Rule(**known | fields)


@dataclass
class World:
    """`published` are the tasks that somebody should look at, oldest first."""

    folder: Path
    rules: Sequence[Rule] = ()
    sink: Any = None
    endpoint: str = ""
    token: SecretRef | None = None
    schema_registry: SchemaRegistry | None = None
    secret_managers: tuple[SecretManager, ...] = ()
    repository: Repository = field(init=False)
    published: deque[str] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.repository = Repository(self.folder / "git")
        self.rules = self.rules or (rule(),)
        self.sink = self.sink or FakeSink(Layout.HASH)

    @property
    def bundle(self) -> Bundle:
        platform = Platform(
            name="github",
            kind="github",
            endpoint=self.endpoint or f"file://{self.repository.folder}/bare",
            token=self.token,
            event_type_header=("X-GitHub-Event",),
            push_event_name=("push",),
            pr_event_name=("pull_request",),
        )
        names = sorted({each.datasource for each in self.rules})
        sources = tuple(
            Datasource(name=name, kind="file", options=FileOptions(root=str(self.folder)))
            for name in names
        )
        return Bundle(
            platforms=(platform,),
            datasources=sources,
            rules=tuple(self.rules),
            schema_registry=self.schema_registry,
            secret_managers=self.secret_managers,
        )

    def ports(self, **other: Any) -> Ports:
        known: dict[str, Any] = {
            "bundle": lambda: self.bundle,
            "resolve": lambda ref, _names: ref.value,
            "repositories": Repositories(self.folder / "cache", allow_file=True),
            "schemas": Schemas(self.folder / "schemas", ttl_s=300, allow_file=True),
            "open_sink": self.open_sink,
            "publish": self.published.extend,
            "jitter": lambda: 1.0,
        }
        return Ports(**known | other)

    def open_sink(self, datasource: Datasource) -> Sink:
        found: Sink = self.sink[datasource.name] if isinstance(self.sink, dict) else self.sink
        return found

    def push(self, commit: str, branch: str = "main", **payload: Any) -> Task:
        """What GitHub sends for a push, accepted."""
        body = {
            "ref": f"refs/heads/{branch}",
            "before": "0" * 40,
            "after": commit,
            "repository": {"full_name": self.repository.name},
            "commits": [],
        }
        return self.deliver(PUSH, body | payload)

    def deliver(self, event: str, payload: dict[str, Any], key: str = "") -> Task:
        delivery = WebhookDelivery(
            platform="github",
            datasource=self.rules[0].segment,
            raw_payload=json.dumps(payload).encode(),
            event=event,
            idempotency_key=key or uuid.uuid4().hex,
            signature_verified=True,
        )
        return accept_delivery(delivery, self.bundle, self.published.extend).task

    def commit_and_push(self, files: dict[str, str | None], branch: str = "main") -> Task:
        return self.push(self.repository.commit(files, branch=branch), branch)

    def run(self, task: Task, **other: Any) -> Task:
        """One attempt."""
        run_task(task.id, self.ports(**other))
        return self.again(task)

    def finish(self, task: Task, attempts: int = 10, **other: Any) -> Task:
        """Attempts, however soon, until it is over."""
        for _ in range(attempts):
            Task.objects.filter(id=task.id, state="RETRYING").update(next_attempt_at=None)
            if self.run(task, **other).finished_at:
                break
        return self.again(task)

    def again(self, task: Task) -> Task:
        found = tasks.get(task.id)
        assert found is not None
        return found

    def values(self, destination: str = "production-shop") -> dict[str, str]:
        """What the sink in memory holds."""
        from sync_stack.core.sink import Destination

        place = Destination(kind="fake", name=destination, address=f"fake://memory/{destination}")
        records = self.sink._place(place).records
        return {key: text for record in records.values() for key, text in record.values.items()}

    def with_rules(self, **fields: Any) -> None:
        self.rules = tuple(replace(each, **fields) for each in self.rules)
