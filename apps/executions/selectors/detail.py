"""One run in full: its Detail (reference: control-plane 11.2)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Set
from typing import Any, Final

from apps.accounts.api import Principal
from apps.executions.domain.topics import events_topic, logs_topic
from apps.executions.models import Execution
from apps.executions.selectors.artifacts import artifacts_of
from apps.executions.selectors.scope import all_runs, find_run, get_execution
from apps.executions.selectors.snapshots import suite_of
from apps.executions.selectors.steps import steps_of
from apps.executions.selectors.summaries import summary
from apps.streams import api as streams
from kernel import clock

PARTS: Final = ("suite", "events", "steps", "artifacts")
_SUITE_TEXTS: Final = ("id", "title", "repository", "suiteStar")
_SUITE_LISTS: Final = ("profiles", "folders", "topology", "resolvedDependencies", "apiSurfaces")
_READS: Final = 4  # how often a run that changes meanwhile is read again


def detail(principal: Principal, run_id: str, *, omit: Set[str] = frozenset()) -> dict[str, Any]:
    """The Detail without the parts named in `omit`. Raises ExecutionNotFound.

    Its parts are of one moment: a run that changes while it is read is read again, a few times.
    """
    return _of_one_moment(lambda: get_execution(principal, run_id), omit)


def run_detail(run_id: str, omit: Set[str] = frozenset()) -> dict[str, Any]:
    """The Detail of any workspace's run, for commands, without `omit`. Raises ExecutionNotFound."""
    return _of_one_moment(lambda: find_run(all_runs(), run_id), omit)


def _of_one_moment(read: Callable[[], Execution], omit: Set[str]) -> dict[str, Any]:
    row = read()
    document = _detail_of(row, omit)
    for _attempt in range(_READS):
        again = read()
        if again.version == row.version:
            break
        row, document = again, _detail_of(again, omit)
    return document


def _detail_of(row: Execution, omit: Set[str]) -> dict[str, Any]:
    now = clock.now()
    last_ids = streams.last_ids([events_topic(row.run_id), logs_topic(row.run_id)])
    document = summary(row, now=now) | _origin(row)
    if "suite" not in omit:
        document["suite"] = _suite(suite_of(row.snapshot_id))
    if "steps" not in omit:
        document["steps"] = steps_of(row, now=now)
    if "events" not in omit:
        document["events"] = events_of(row.run_id)
    if "artifacts" not in omit:
        document["artifacts"] = artifacts_of(row)
    document["lastEventId"] = last_ids.get(events_topic(row.run_id), 0)
    document["lastLogId"] = last_ids.get(logs_topic(row.run_id), 0)
    return document


def events_of(run_id: str) -> list[dict[str, Any]]:
    """Every event of the run: the one at index n - 1 has stream id n."""
    chunks = streams.iterate(events_topic(run_id))
    return [json.loads(record) for chunk in chunks for record in chunk.records]


def _origin(row: Execution) -> dict[str, Any]:
    origin: dict[str, Any] = {
        "updatedAt": clock.rfc3339(row.updated_at),
        "author": row.author,
        "commit": row.commit,
        "branch": row.branch,
        "message": row.message,
    }
    if row.cancel_reason:
        origin["cancelReason"] = row.cancel_reason
    if row.keep_alive_until is not None:
        origin["keepAliveUntil"] = clock.rfc3339(row.keep_alive_until)
    return origin


def _suite(definition: Mapping[str, Any]) -> dict[str, Any]:
    suite: dict[str, Any] = {key: definition.get(key, "") for key in _SUITE_TEXTS}
    suite |= {key: definition.get(key, []) for key in _SUITE_LISTS}
    suite["sourceFiles"] = [
        {name: value for name, value in file.items() if name != "content"}
        for file in definition["sourceFiles"]
    ]
    return suite
