"""The mock spaces of runs: whose they are, and what they serve (reference: control-plane 18.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from django.db.models import Q, QuerySet

from apps.accounts.api import Principal
from apps.executions import conf
from apps.executions.domain.steps import mock_addresses
from apps.executions.models import Execution
from apps.executions.selectors.definitions import RunDefinition, archive_of, run_definition
from apps.executions.selectors.kept_environments import KEPT
from apps.executions.selectors.runs import get_execution
from apps.mocks.api import SpaceContent, SpaceName, mock_url
from readers.archive import unpack
from surfaces import surfaces_of

_NOTHING: Final = "nothing"  # the generation of a suite without files


def space_of(definition: RunDefinition, run_id: str, node_id: str) -> SpaceName:
    """Return the space of a mock node, or of the suite that declares another node."""
    path = node_id.rpartition("/")[0]
    suite_id = definition.suite["id"]
    if path:
        suite_id = next(
            node["sourceSuiteId"]
            for node in definition.nodes
            if node["id"].rpartition("/")[0] == path
        )
    return SpaceName(suite_id, run_id, path)


def mock_urls(definition: RunDefinition, run_id: str, step_id: str) -> dict[str, str]:
    """Return the addresses of the run's mocks, by the keys that the step knows."""
    return {
        key: mock_url(
            conf.mock_base_url(),
            space_of(definition, run_id, each.node_id),
            each.surface_id,
            each.adapter,
        )
        for key, each in mock_addresses(definition.mocks, step_id).items()
    }


def mock_spaces(principal: Principal, run_id: str) -> list[tuple[str, SpaceName, tuple[str, ...]]]:
    """Return id, space and surfaces of each mock node of a run; raise ExecutionNotFound."""
    row = get_execution(principal, run_id)
    definition = run_definition(row.snapshot_id)
    return [
        (node_id, space_of(definition, run_id, node_id), tuple(surfaces))
        for node_id, surfaces in definition.mocks.items()
    ]


class RunSpaces:
    """The space source `run`: the suites of a run as its snapshot has them, until the run ends.

    Where the environment is kept, they stay until that ends. A suite has a space in a run if a step
    of the run is of that suite.
    """

    def load(self, name: SpaceName) -> SpaceContent | None:
        rows = _live_runs().filter(run_id=name.execution_id)
        snapshot_id = rows.values_list("snapshot_id", flat=True).first()
        if snapshot_id is None:
            return None
        definition = run_definition(snapshot_id)
        suite = _suite(definition, name)
        if suite is None:
            return None
        content = definition.content_of(name.suite_id, name.import_path)
        files = unpack(archive_of(snapshot_id, content)) if content else {}
        surfaces, _ = surfaces_of(files, suite_id=name.suite_id, base_url=conf.mock_base_url())
        return SpaceContent(
            suite_id=name.suite_id,
            title=suite["title"],
            repository=suite["repository"],
            generation=content["digest"] if content else _NOTHING,
            surfaces=surfaces,
            files=files,
        )

    def generations(self, names: Sequence[SpaceName]) -> Mapping[SpaceName, str]:
        run_ids = {name.execution_id for name in names}
        rows = _live_runs().filter(run_id__in=run_ids)
        snapshots = dict(rows.values_list("run_id", "snapshot_id"))
        found: dict[SpaceName, str] = {}
        for name in names:
            if name.execution_id in snapshots:
                definition = run_definition(snapshots[name.execution_id])
                if _suite(definition, name) is not None:
                    content = definition.content_of(name.suite_id, name.import_path)
                    found[name] = content["digest"] if content else _NOTHING
        return found


def _live_runs() -> QuerySet[Execution, Execution]:
    return Execution.objects.not_deleted().filter(Q(finished_at=None) | KEPT)


def _suite(definition: RunDefinition, name: SpaceName) -> Mapping[str, str] | None:
    """Return title and repository of the suite of a space, None if the run does not have it."""
    if not name.import_path:
        return definition.suite if name.suite_id == definition.suite["id"] else None
    for node in definition.nodes:
        if node["id"].rpartition("/")[0] == name.import_path:
            if node["sourceSuiteId"] != name.suite_id:
                return None
            return {"title": node["sourceSuiteTitle"], "repository": node["sourceRepository"]}
    return None


RUN_SPACES: Final = RunSpaces()
