"""The attempts of a run, and what differs from the last Healthy run of its suite before it.

(reference: control-plane 11.6)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypedDict

from django.db.models import Q, QuerySet

from apps.accounts.api import Principal
from apps.executions.domain.attempts import AttemptBody, attempt_row, shown_numbers
from apps.executions.domain.runs import RunSummary
from apps.executions.domain.since_green import (
    MAX_DIFFERENCES,
    ComparedRun,
    RunDifference,
    run_differences,
)
from apps.executions.domain.states import ExecutionStatus, StepStatus
from apps.executions.models import Execution, Step
from apps.executions.selectors.definitions import RunDefinition, run_definition, suite_of
from apps.executions.selectors.runs import (
    NEWEST_FIRST,
    get_execution,
    summaries,
)
from kernel import clock

_LAST_AS_LONG_AS_THE_RUN: Final = ("service", "mock")
_ENDED: Final = (str(StepStatus.HEALTHY), str(StepStatus.FAILED))


class GreenRun(TypedDict):
    id: str
    startedAt: str
    profile: str


class _WithGreen(TypedDict, total=False):
    """The last Healthy run; absent if there was none."""

    green: GreenRun


class SinceGreen(_WithGreen):
    """What differs since the last Healthy run, as on the wire."""

    sentence: str
    differences: list[RunDifference]
    moreDifferences: int


def attempts_of(first_run_id: str) -> QuerySet[Execution, Execution]:
    """Return the rows of a first run and of all its reruns, deleted ones included."""
    return Execution.objects.filter(Q(run_id=first_run_id) | Q(first_run_id=first_run_id))


def attempt_documents(row: Execution) -> list[AttemptBody]:
    """Return the attempts that the run is one of; needs no query for a run without reruns."""
    if row.last_attempt == 1:
        return [_attempt(row, *summaries([row]))]
    attempts = attempts_of(row.first_run_id or row.run_id).filter(deleted_at=None)
    numbers = set(attempts.values_list("attempt", flat=True))
    rows = list(attempts.filter(attempt__in=shown_numbers(numbers, row.attempt)))
    shown = [_attempt(*each) for each in zip(rows, summaries(rows), strict=True)]
    return attempt_row(shown, numbers=numbers, last=row.last_attempt)


def _attempt(row: Execution, brief: RunSummary) -> AttemptBody:
    document: AttemptBody = {
        "number": row.attempt,
        "id": row.run_id,
        "status": row.status,
        "sentence": brief["sentence"],
        "startedAt": brief["startedAt"],
        "profile": row.profile,
    }
    if row.finished_at:
        document["durationMs"] = brief["durationMs"]
    if row.rerun_of:
        document["rerunOf"] = row.rerun_of
    return document


def since_green(principal: Principal, run_id: str) -> SinceGreen:
    """Return what differs since the last Healthy run before it; raise ExecutionNotFound."""
    row = get_execution(principal, run_id)
    before = Execution.objects.not_deleted().filter(
        workspace_id=row.workspace_id,
        suite_id=row.suite_id,
        status=ExecutionStatus.HEALTHY.value,
        started_at__lt=row.started_at,
    )
    green = before.order_by(*NEWEST_FIRST).first()
    if green is None:
        sentence = "No run of this suite was Healthy before this one."
        return {"sentence": sentence, "differences": [], "moreDifferences": 0}
    found = run_differences(compared_run(green), compared_run(row))
    count = f"{len(found)} difference{'' if len(found) == 1 else 's'}" if found else "Nothing"
    known = "" if found else " that the platform knows of differs"
    return {
        "green": {
            "id": green.run_id,
            "startedAt": clock.rfc3339(green.started_at),
            "profile": green.profile,
        },
        "sentence": f"{count}{known} since {green.run_id}, the last Healthy run before this one.",
        "differences": found[:MAX_DIFFERENCES],
        "moreDifferences": max(0, len(found) - MAX_DIFFERENCES),
    }


def compared_run(row: Execution) -> ComparedRun:
    """Return a run as it is compared; values of variables become hashes here."""
    definition, document = run_definition(row.snapshot_id), suite_of(row.snapshot_id)
    own = definition.suite["id"]
    digests = {key: str(each["digest"]) for key, each in definition.contents.items()}
    return ComparedRun(
        content_digest=str(document.get("contentDigest", "")) or digests.get(own, ""),
        profile=row.profile,
        backend=row.backend_label,
        author=row.author,
        commit=row.commit,
        branch=row.branch,
        steps=frozenset(node["id"] for node in definition.nodes),
        imports={key.removeprefix("/"): each for key, each in digests.items() if key != own},
        env=_hashed_env(definition),
        images={node["id"]: node["image"] for node in definition.nodes if node.get("image")},
        took_ms=_durations(row),
    )


def _hashed_env(definition: RunDefinition) -> dict[tuple[str, str], str]:
    """Return the hash of each variable by where it is set; of a secret, that of its reference."""
    profile = definition.profile
    places: list[tuple[str, Mapping[str, Any]]] = [("profile", profile.get("env", {}))]
    places += [
        (f"profile, services.{step}", own) for step, own in profile.get("services", {}).items()
    ]
    for node in definition.nodes:
        places.append((node["id"], {**node.get("env", {}), **node.get("runtimeEnv", {})}))
    places.append(("secret of the profile", _references(profile.get("secretRefs", ()))))
    places += [
        (f"secret of {path}", _references(own))
        for path, own in definition.secrets_of_imports.items()
    ]
    return {
        (where, name): hashlib.sha256(str(value).encode()).hexdigest()
        for where, values in places
        for name, value in values.items()
    }


def _references(references: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {each["key"]: json.dumps([each["provider"], each["ref"]]) for each in references}


def _durations(row: Execution) -> dict[str, int]:
    steps = Step.objects.filter(
        execution=row, status__in=_ENDED, started_at__isnull=False, finished_at__isnull=False
    ).exclude(kind__in=_LAST_AS_LONG_AS_THE_RUN)
    rows = steps.values_list("step_id", "started_at", "finished_at")
    return {step: clock.milliseconds(end - start) for step, start, end in rows if start and end}
