"""Reads of the refs that tasks are about: those that wait, and those that failed.

Each read has a bound: a store may hold as many waiting tasks as SYNC_MAX_PENDING.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from django.db.models import Q, QuerySet

from kernel import clock
from sync_stack.core.tasks import State, TaskKind
from sync_stack.orchestrator.domain.target_lag import UNPARSED, UNREAD_PREFIX
from sync_stack.orchestrator.domain.task_documents import TaskRequest
from sync_stack.orchestrator.models import LedgerTarget, Task

MAX_LIVE: Final = 1000  # of one query
MAX_NAMES: Final = 500  # in one query
FAILED: Final = (State.FAILED, State.DEAD)
_LIVE: Final = (State.PENDING, State.RUNNING, State.RETRYING)
_MAX_FAILURES: Final = 500
_COLUMNS: Final = (
    *("id", "state", "message", "platform", "datasource", "created_at", "finished_at"),
    *("request", "error"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRef:
    """A ref that a task is about; no `rules`: any.

    `names_head`: its event tells the head, or that the ref was deleted. `brings_head`: the targets
    will hold it; a heal, a plan and a purge bring none.
    """

    task: Task
    repo: str
    ref: str
    commit: str
    names_head: bool
    brings_head: bool
    rules: tuple[str, ...]

    def is_for(self, rule: str, platform: str, segment: str) -> bool:
        placed = (self.task.platform, self.task.datasource) == (platform, segment)
        return rule in self.rules if self.rules else placed

    def has_staled(self, target: LedgerTarget) -> bool:
        """Return whether the task failed so that the target cannot follow Git since."""
        ended = self.task.finished_at
        if self.repo != target.repo or (ended and clock.rfc3339(ended) < target.stale_since):
            return False
        code = str(self.task.error.get("code", ""))
        return code.startswith(UNREAD_PREFIX) or (code in UNPARSED and self.ref == target.ref)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTasks:
    """What tasks that have not ended will bring, by repository and ref, oldest first.

    `is_cut`: there are more of them than were read.
    """

    of_ref: dict[tuple[str, str], list[TaskRef]] = field(default_factory=dict)
    is_cut: bool = False


def list_live() -> LiveTasks:
    """Return the oldest live tasks of all refs."""
    return _read_live([_live_rows()])


def list_live_of(branch_keys: Collection[str]) -> LiveTasks:
    """Return the live tasks of these keys, and of pull requests and approvals, which have none."""
    rows = _live_rows().exclude(kind=TaskKind.HEAL)
    keys = [[""], *in_chunks(branch_keys)]
    return _read_live(rows.filter(coalesce_key__in=chunk) for chunk in keys)


def list_failures(targets: Iterable[LedgerTarget]) -> list[TaskRef]:
    """Return what tasks were about that may have made targets stale, newest first."""
    times = [target.stale_since for target in targets if target.stale_since]
    if not times:
        return []
    is_cause = Q(message__startswith=UNREAD_PREFIX) | Q(message__in=sorted(UNPARSED))
    since = clock.parse_rfc3339(min(times))
    ended = is_cause & Q(state__in=list(FAILED), finished_at__gte=since)
    rows = Task.objects.filter(ended | Q(state=State.RETRYING)).order_by("-id").only(*_COLUMNS)
    return [found for task in rows[:_MAX_FAILURES] for found in _refs_of(task)]


def failed_tasks(task_ids: Collection[str]) -> dict[str, Task]:
    """Return those of the tasks that failed, without memory, progress and facets."""
    rows = Task.objects.filter(state__in=list(FAILED)).defer("memory", "progress", "facets")
    return {task.id: task for chunk in in_chunks(task_ids) for task in rows.filter(id__in=chunk)}


def in_chunks(names: Collection[str]) -> Iterator[Sequence[str]]:
    """Yield the names in their order, as many as one query may name."""
    known = sorted(names)
    for start in range(0, len(known), MAX_NAMES):
        yield known[start : start + MAX_NAMES]


def _live_rows() -> QuerySet[Task]:
    return Task.objects.filter(state__in=list(_LIVE)).order_by("id").only(*_COLUMNS)


def _read_live(queries: Iterable[QuerySet[Task]]) -> LiveTasks:
    found: list[Task] = []
    is_cut = False
    for rows in queries:
        page = list(rows[: MAX_LIVE + 1])
        is_cut = is_cut or len(page) > MAX_LIVE
        found += page[:MAX_LIVE]
    live = LiveTasks(is_cut=is_cut)
    for task in sorted(found, key=lambda task: task.id):
        for each in _refs_of(task):
            if each.brings_head:
                live.of_ref.setdefault((each.repo, each.ref), []).append(each)
    return live


def _refs_of(task: Task) -> list[TaskRef]:
    request = TaskRequest.of(task.request)
    return [
        TaskRef(
            task=task,
            repo=event.repo,
            ref=event.ref,
            commit=event.commit,
            names_head=bool(event.commit or event.deleted),
            brings_head=not (request.heal or request.dry_run or request.purge),
            rules=request.rules,
        )
        for event in request.events
    ]
