"""Resources of runtimes, and an engine in memory that lists and removes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from kernel.agent_protocol import ResourceKind, RuntimeResource
from worker.domain import ownership
from worker.domain.runtime import RuntimeUnavailable

CREATED = datetime(2026, 11, 27, 10, 0, tzinfo=UTC)
INSTALLATION = "installation-of-tests"


def labels(run_id: str = "", /, **more: str) -> dict[str, str]:
    """The labels of what is ours; `workspace_id="w"` becomes `partita.workspace_id`."""
    ours = {ownership.MANAGED: "true", ownership.INSTALLATION: INSTALLATION}
    named = {"suite": "shop", "owner": "Ada", "profile": ""}
    if run_id:
        named["run_id"] = run_id
    named |= more
    return ours | {f"partita.{name}": value for name, value in named.items()}


def resource(
    kind: ResourceKind = "container",
    name: str = "store",
    *,
    run_id: str = "run-000000000001",
    minutes: float = 0,
    label: dict[str, str] | None = None,
    **facts: Any,
) -> RuntimeResource:
    """A resource of a run; a container runs. `minutes` after 10:00 it was created."""
    state = {"state": "running", "status": "Up 1 minute"} if kind == "container" else {}
    return RuntimeResource(
        kind=kind,
        id=facts.pop("id", name),
        name=name,
        created_at=CREATED + timedelta(minutes=minutes),
        labels=labels(run_id, **(label or {})),
        **{**state, **facts},
    )


@dataclass
class EngineInMemory:
    """What a runtime offers the inventory. `before_removal` is called with each resource first."""

    resources: dict[tuple[str, str], RuntimeResource] = field(default_factory=dict)
    installation_id: str = INSTALLATION
    away: bool = False
    stuck: set[str] = field(default_factory=set)  # names that cannot be removed
    listed: int = 0
    removed: list[RuntimeResource] = field(default_factory=list)
    before_removal: Callable[[RuntimeResource], object] = lambda _resource: None

    def put(self, *resources: RuntimeResource) -> None:
        for each in resources:
            self.resources[each.kind, each.id] = each

    def end(self, name: str, exit_code: int = 0) -> None:
        for key, each in self.resources.items():
            if each.name == name:
                self.resources[key] = replace(each, state="exited", exit_code=exit_code)

    def names(self) -> set[str]:
        return {each.name for each in self.resources.values()}

    async def list_resources(self) -> Sequence[RuntimeResource]:
        self._require()
        self.listed += 1
        return [
            each
            for each in self.resources.values()
            if ownership.is_owned(each.labels, self.installation_id)
        ]

    async def look_at(self, wanted: RuntimeResource) -> RuntimeResource | None:
        self._require()
        return self.resources.get((wanted.kind, wanted.id))

    async def remove_resource(self, wanted: RuntimeResource) -> bool:
        self._require()
        self.before_removal(wanted)
        now = self.resources.get((wanted.kind, wanted.id))
        if now is None:
            return True
        if wanted.name in self.stuck or not ownership.is_owned(now.labels, self.installation_id):
            return False
        self.removed.append(self.resources.pop((wanted.kind, wanted.id)))
        return True

    def _require(self) -> None:
        if self.away:
            raise RuntimeUnavailable("the engine of the test is away")
