"""What must hold of a run whose supervisor, web process, broker or store was killed under it."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Container, Iterable
from typing import Any, Final, Protocol

import httpx

from tests.faults.engine_watch import EngineWatch
from tests.support.cluster import TERMINAL

NUMBERED: Final = re.compile(r"^(\d+)/(\d+) ")
OPEN: Final = ("pending", "queued", "running")
# of a step's events: which status may follow which (reference: control-plane 11.4)
MOVES: Final = {
    "pending": {"queued", "skipped", "canceled"},
    "queued": {"queued", "running", "healthy", "skipped", "failed", "canceled", "pending"},
    "running": {"running", "healthy", "queued", "failed", "canceled", "pending"},
    # services, and what is reset with them; others have ended
    "healthy": {"healthy", "failed", "queued", "canceled", "pending"},
    "failed": {"failed"},  # the event `-continued`
    "skipped": {"pending"},
    "canceled": set(),
}
Attempt = tuple[str, int]
Json = dict[str, Any]


class Site(Protocol):
    """Where runs are launched and looked at; a Cluster is one."""

    def launch(self, suite: str, **body: Any) -> str: ...
    def get(self, path: str, **parameters: str) -> httpx.Response: ...
    def detail(self, run_id: str) -> Json: ...
    def lines(self, run_id: str) -> list[Json]: ...
    def wait_over(self, run_id: str, *, within_s: float = 120) -> Json: ...
    def account_of(self, run_id: str) -> str: ...


def check_run(cluster: Site, watch: EngineWatch, run_id: str, *, status: str = "Healthy") -> Json:
    """Everything at once; returns the run's detail."""
    cluster.wait_over(run_id)
    try:
        detail = cluster.detail(run_id)
        assert detail["status"] == status, detail.get("reasonDetail")
        check_events(detail)
        check_lines(cluster.lines(run_id), lost=lost_attempts(detail))
        check_streams(cluster, run_id)
        watch.check_attempts(run_id)
        watch.check_nothing_left(run_id)
        assert cluster.detail(run_id)["events"] == detail["events"], "nothing follows the end"
    except AssertionError as error:
        raise AssertionError(f"{error}\n{cluster.account_of(run_id)}") from error
    return detail


def check_events(detail: Json) -> None:
    """Statuses follow the order of the reference; a step begins once all it needs is healthy."""
    events, steps = detail["events"], {step["id"]: step for step in detail["steps"]}
    names = [event["id"] for event in events]
    assert len(names) == len(set(names)), "event ids are unique"
    times = [event["time"] for event in events]
    assert times == sorted(times), "events are in the order of their times"
    now = dict.fromkeys(steps, ("pending", 0))
    for event in events:
        if event["source"] in steps:
            now[event["source"]] = _moved(now, event, steps[event["source"]])
    for name, step in steps.items():
        assert now[name][0] == step["status"] not in OPEN, f"{name}: {now[name]}, {step['status']}"
    ends = [event["source"] for event in events if event["source"] not in steps]
    assert ends == ["execution"] * 3, ends
    assert events[-1]["source"] == "execution", "the end comes last"


def _moved(now: dict[str, tuple[str, int]], event: Json, step: Json) -> tuple[str, int]:
    status, attempt = now[event["source"]]
    assert event["status"] in MOVES[status], f"{event['id']}: {status} → {event['status']}"
    if status == "healthy" and event["status"] != "pending":
        assert step["kind"] == "service", f"{event['id']} follows its end"
    if (status, event["status"]) == ("queued", "running"):
        needs = set(step["dependsOn"]) - set(step["onFailure"])
        missing = [need for need in needs if now[need][0] != "healthy"]
        assert not missing, f"{event['id']} without {missing}"
    told = event.get("attempt", attempt)
    assert attempt <= told <= attempt + 1, f"{event['id']}: attempt {told} after {attempt}"
    return event["status"], told


def lost_attempts(detail: Json) -> set[Attempt]:
    """Those that a supervisor was too late for: their output may end early."""
    lost = set()
    for event in detail["events"]:
        voided = "-reset" in event["id"] and "attempt" in event
        if "-requeued" in event["id"]:
            lost.add((event["source"], event["attempt"] - 1))
        elif voided or event.get("reason") == "agent_lost":
            lost.add((event["source"], event["attempt"]))
    return lost


def whole_attempts(detail: Json) -> set[Attempt]:
    """Those that ended well and were not reset: nothing of their output may be missing."""
    healthy = {
        (event["source"], event["attempt"])
        for event in detail["events"]
        if event["status"] == "healthy" and "attempt" in event
    }
    return healthy - lost_attempts(detail)


def check_lines(
    records: Iterable[Json],
    *,
    lost: Collection[Attempt] = (),
    whole: Container[Attempt] | None = None,
) -> None:
    """Ids are dense; numbered lines come once each, in order, none missing.

    Only the beginning may be there of attempts in `lost`, or of all but those in `whole`.
    """
    records = list(records)
    assert [record["id"] for record in records] == list(range(1, len(records) + 1))
    told: dict[Attempt, list[tuple[int, int]]] = defaultdict(list)
    for record in records:
        line = record["line"]
        if line["kind"] == "output" and (match := NUMBERED.match(line["text"])):
            told[line["source"], line["attempt"]].append((int(match[1]), int(match[2])))
    assert told or lost or whole is not None, "the run printed numbered lines"
    for attempt, numbers in told.items():
        seen = [number for number, _ in numbers]
        assert seen == list(range(1, len(seen) + 1)), f"{attempt}: {seen}"
        if attempt not in lost if whole is None else attempt in whole:
            assert len(seen) == numbers[0][1], f"{attempt} lost lines: {seen} of {numbers[0][1]}"


def check_streams(cluster: Site, run_id: str) -> None:
    """Both streams replay the whole run by dense ids, equal to what GET shows, and end."""
    shown: dict[str, list[Any]] = {
        "events": cluster.detail(run_id)["events"],
        "logs": [record["line"] for record in cluster.lines(run_id)],
    }
    for name, part in (("events", "event"), ("logs", "line")):
        *records, end = frames(cluster.get(f"/executions/{run_id}/{name}", since="0").text)
        assert [record["id"] for record in records] == list(range(1, len(records) + 1))
        assert [record[part] for record in records] == shown[name], f"{name} differ"
        assert (end["lastId"], end["status"] in TERMINAL) == (len(records), True)


def frames(text: str) -> list[Json]:
    """The data of each frame of a finished stream."""
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
