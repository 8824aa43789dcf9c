"""How an orchestrator's targets, tasks and drift are shown to people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from partita_client.command.output import ListColumn, age_of, printable

NONE: Final = "–"
INCOMPLETE: Final = (
    "not all that is behind may be shown: too many tasks wait, or too many refs were never applied"
)
_BY_HAND: Final = ("drifted", "flapping", "healing")


def _lag_cell(target: Any) -> str:
    lag = target.get("behind")
    return f"{lag.get('code') or lag['state']} {age_of(lag.get('since'))}" if lag else NONE


def _status_cell(target: Any) -> str:
    return f"{target['status']}{', stale' if target['stale'] else ''}"


TARGET_COLUMNS: Final = (
    ListColumn(heading="RULE", cell=lambda each: each["rule_id"]),
    ListColumn(heading="REPOSITORY", cell=lambda each: each["repo"]),
    ListColumn(heading="ENV", cell=lambda each: each.get("env", NONE)),
    ListColumn(heading="DESTINATION", cell=lambda each: each["destination"]),
    ListColumn(heading="COMMIT", cell=lambda each: each.get("commit", NONE)[:12]),
    ListColumn(heading="KEYS", cell=lambda each: str(each["keys"])),
    ListColumn(heading="AGE", cell=lambda each: age_of(each.get("applied_at"))),
    ListColumn(heading="STATUS", cell=_status_cell, is_status=True),
    ListColumn(heading="BEHIND", cell=_lag_cell),
    ListColumn(heading="REF", cell=lambda each: each.get("ref", NONE), is_wide=True),
    ListColumn(heading="DATASOURCE", cell=lambda each: each["datasource"], is_wide=True),
    ListColumn(heading="GENERATION", cell=lambda each: str(each["generation"]), is_wide=True),
    ListColumn(heading="APPLIED", cell=lambda each: each.get("applied_at", NONE), is_wide=True),
    ListColumn(heading="ID", cell=lambda each: each["unit_id"], is_wide=True),
)


def _first_event(task: Any) -> Any:
    return task.get("event", {})


def _commit_cell(task: Any) -> str:
    applied = [each.get("commit", "") for each in task.get("result", {}).get("targets", [])]
    named = [*applied, _first_event(task).get("commit", "")]
    return next(filter(None, named), NONE)[:12]


TASK_COLUMNS: Final = (
    ListColumn(heading="TASK", cell=lambda task: task["task_id"]),
    ListColumn(heading="KIND", cell=lambda task: task["kind"]),
    ListColumn(heading="STATE", cell=lambda task: task["state"], is_status=True),
    ListColumn(heading="MESSAGE", cell=lambda task: task["message"]),
    ListColumn(heading="REPOSITORY", cell=lambda task: _first_event(task).get("repo", NONE)),
    ListColumn(heading="REF", cell=lambda task: _first_event(task).get("ref", NONE)),
    ListColumn(heading="COMMIT", cell=_commit_cell),
    ListColumn(heading="WRITTEN", cell=lambda task: str(task.get("result", {}).get("written", 0))),
    ListColumn(heading="PRUNED", cell=lambda task: str(task.get("result", {}).get("pruned", 0))),
    ListColumn(heading="AGE", cell=lambda task: age_of(task["created_at"])),
    ListColumn(heading="CREATED", cell=lambda task: task["created_at"], is_wide=True),
    ListColumn(heading="ATTEMPT", cell=lambda task: str(task["attempt"]), is_wide=True),
    ListColumn(heading="DELIVERY", cell=lambda task: task.get("delivery_id", ""), is_wide=True),
)
DRIFT_COLUMNS: Final = (
    ListColumn(heading="DRIFT", cell=lambda each: each["drift_id"]),
    ListColumn(heading="RULE", cell=lambda each: each["rule_id"]),
    ListColumn(heading="REPOSITORY", cell=lambda each: each.get("repo", NONE)),
    ListColumn(heading="ENV", cell=lambda each: each.get("env", NONE)),
    ListColumn(
        heading="STATE",
        cell=lambda each: f"{each['state']}{', flapping' if each.get('flapping') else ''}",
        is_status=True,
    ),
    ListColumn(heading="AGE", cell=lambda each: age_of(each.get("first_seen_at"))),
    ListColumn(heading="CHANGED", cell=lambda each: _count(each, "changed")),
    ListColumn(heading="ADDED", cell=lambda each: _count(each, "added")),
    ListColumn(heading="REMOVED", cell=lambda each: _count(each, "removed")),
    ListColumn(
        heading="KEYS",
        cell=lambda each: ", ".join(key["key"] for key in each.get("changes", [])[:5]) or NONE,
    ),
    ListColumn(heading="DESTINATION", cell=lambda each: each["destination"], is_wide=True),
    ListColumn(heading="SINCE", cell=lambda each: each.get("first_seen_at", ""), is_wide=True),
    ListColumn(heading="SEEN", cell=lambda each: each.get("last_seen_at", ""), is_wide=True),
    ListColumn(heading="POLLS", cell=lambda each: str(each["polls"]), is_wide=True),
)


def _count(drift: Any, name: str) -> str:
    return str(drift.get("counts", {}).get(name, 0))


def status_lines(targets: Sequence[Any], unapplied: Sequence[Any]) -> Iterator[str]:
    for target in targets:
        if lag := target.get("behind"):
            names = (target["rule_id"], target["repo"], target.get("env", ""))
            place = f"{' '.join(filter(None, names))} at {target['destination']}"
            yield from _explanation(f"{place}: behind for {age_of(lag.get('since'))}", lag)
    for ref in unapplied:
        place = " ".join(filter(None, (ref.get("rule_id", ""), ref["repo"], ref["ref"])))
        lag = ref["behind"]
        yield from _explanation(f"{place}: nothing applied for {age_of(lag.get('since'))}", lag)
    if changed := sum(target["status"] in _BY_HAND for target in targets):
        yield f"changed outside Git: {changed} of {len(targets)} targets"
        yield "  next: partita sync drift --state open"


def _explanation(beginning: str, lag: Any) -> Iterator[str]:
    why = ": ".join(filter(None, (lag.get("code", ""), lag.get("detail", ""))))
    place = ":".join(str(lag[name]) for name in ("file", "line") if lag.get(name))
    text = f"{beginning}: {lag['state']}{f', {why}' if why else ''}{f' ({place})' if place else ''}"
    yield printable(text)
    if lag.get("next"):
        yield printable(f"  next: {lag['next']}")


def count_text(targets: int, behind: int, unapplied: int) -> str:
    found = f"{targets} target{'' if targets == 1 else 's'}, {behind} behind"
    refs = f"{unapplied} ref{'' if unapplied == 1 else 's'} never applied"
    return f"{found}, {refs}" if unapplied else found


def task_lines(task: Any) -> Iterator[str]:
    yield (
        f"{task['kind']} task {task['task_id']}: {task['state']}, {task['message']}, "
        f"created {age_of(task['created_at'])} ago"
    )
    for event in task.get("events", [task["event"]] if "event" in task else []):
        yield f"  {event['repo']} {event['ref']} {event.get('commit', '')[:12]}".rstrip()
    if error := task.get("error"):
        place = ":".join(str(error[name]) for name in ("file", "line") if error.get(name))
        yield f"  {error['code']}: {error['detail']}{f' ({place})' if place else ''}"
    for each in task.get("result", {}).get("targets", []):
        if keys := each.get("would_prune"):
            yield f"  {each['destination']}: would delete {', '.join(keys)}"
    if next_time := task.get("next_attempt_at"):
        yield f"  attempt {task['attempt']} of {task['max_attempts']}; the next one: {next_time}"
