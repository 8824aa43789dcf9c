"""The last results of each suite, in a bounded number of queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Final
from uuid import UUID

from apps.accounts.api import Principal
from apps.executions.domain.runs import RunFilter, RunSummary
from apps.executions.models import Execution
from apps.executions.selectors.runs import NEWEST_FIRST, matching_runs, summaries

RUNS_READ: Final = 1_000  # by one query
MAX_QUERIES: Final = 4


def newest_by_suite(
    principal: Principal,
    suite_ids: Collection[str],
    *,
    count: int,
    statuses: frozenset[str] = frozenset(),
) -> Mapping[str, list[RunSummary]]:
    """Return the newest `count` runs of each suite that `principal` may see, newest first.

    Suites without any are absent. Takes `MAX_QUERIES` queries at most, and those of `summaries`,
    however many suites there are: the first reads the newest runs of all, the next ones those of
    the suites that others crowd out. Runs that even these leave out are not found.
    """
    runs = matching_runs(principal, RunFilter(statuses=statuses))
    found: dict[str, list[UUID]] = defaultdict(list)
    wanted = set(suite_ids)
    for _ in range(MAX_QUERIES):
        rows = runs.filter(suite_id__in=sorted(wanted)).order_by(*NEWEST_FIRST)[:RUNS_READ]
        read: dict[str, list[UUID]] = defaultdict(list)
        for suite_id, key in rows.values_list("suite_id", "pk"):
            read[suite_id].append(key)
        found |= {suite_id: keys[:count] for suite_id, keys in read.items()}
        wanted -= {suite_id for suite_id, keys in read.items() if len(keys) >= count}
        if not wanted or sum(len(keys) for keys in read.values()) < RUNS_READ:
            break
    return _summaries_of(found)


def _summaries_of(found: Mapping[str, list[UUID]]) -> Mapping[str, list[RunSummary]]:
    keys = [key for each in found.values() for key in each]
    rows = list(Execution.objects.filter(pk__in=keys).defer("message").order_by(*NEWEST_FIRST))
    grouped: dict[str, list[RunSummary]] = defaultdict(list)
    for summary in summaries(rows):
        grouped[summary["suiteId"]].append(summary)
    return grouped
