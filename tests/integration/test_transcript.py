"""`shop` on real Docker, recorded from its two streams: what each step went through, in order.

`docs/transcripts` keeps one recording of each; PARTITA_RECORD=1 writes them anew.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support import sse
from tests.support.parts import need
from tests.support.processes import ROOT
from tests.support.up import Up

KEPT = ROOT / "docs" / "transcripts"
ORDINARY = ["queued", "claimed", "running", "healthy"]
TESTED = ["queued", "claimed", "running", "artifacts", "healthy"]
DISPATCHED = ["queued", "claimed", "healthy"]
STATUS_OF = {
    "retry": "queued",
    "claimed": "running",
    "artifacts": "running",
    "reset": "running",
}  # else its own name
pytestmark = pytest.mark.docker


@dataclass(frozen=True)
class Recording:
    """One run: what GET shows of it, and both streams as they came."""

    detail: dict[str, Any]
    events: str
    logs: str

    @property
    def told(self) -> list[dict[str, Any]]:
        return [frame.data["event"] for frame in sse.frames(self.events)[:-1]]

    def by_source(self) -> dict[str, list[dict[str, Any]]]:
        found = defaultdict(list)
        for event in self.told:
            found[event["source"]].append(event)
        return dict(found)

    def step(self, name: str) -> dict[str, Any]:
        return next(dict(step) for step in self.detail["steps"] if step["id"] == name)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("transcripts") / "up"
    engine = need("TEST_DOCKER_HOST", "a Docker engine")
    with Up(folder, UP_DEMO="0", DOCKER_HOST=engine) as up:
        yield up


def record(up: Up, profile: str, suite: str = "shop") -> Recording:
    """Both streams are followed from the launch on."""
    with up.client() as client:
        answer = client.post("/executions", json={"suiteId": suite, "profile": profile})
        run_id = answer.json()["id"]
        events = sse.recorded(client, f"/executions/{run_id}/events")
        logs = sse.recorded(client, f"/executions/{run_id}/logs")
    return Recording(up.detail(run_id), events, logs)


@pytest.fixture(scope="module")
def healthy(up: Up) -> Recording:
    return record(up, "default.yaml")


@pytest.fixture(scope="module")
def broken(up: Up) -> Recording:
    return record(up, "broken.yaml")


@pytest.fixture(params=["shop", "shop-broken"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def recording(name: str, healthy: Recording, broken: Recording) -> Recording:
    return {"shop": healthy, "shop-broken": broken}[name]


def moves(events: Sequence[dict[str, Any]]) -> list[str]:
    """What happened, as the event ids say it: `queued`, …, `claimed-2`; pulling is left out."""
    whats = [event["id"].removeprefix(f"{event['source']}-") for event in events]
    return [what for what in whats if not what.startswith("image-pull")]


def test_the_steps_of_shop_go_through_their_states_in_order(healthy: Recording):
    """Invariants 1, 3, 13 (reference: control-plane 11.2, 11.3, 11.4, 11.5)."""
    told = {source: moves(events) for source, events in healthy.by_source().items()}
    retried = ["queued", "claimed", "running", "retry-2", "claimed-2", "running-2", "healthy-2"]
    assert told == {
        "execution": ["queued", "booting", "healthy"],
        **dict.fromkeys(["store", "migrate", "seed", "api"], ORDINARY),
        "warm-cache": retried,
        **dict.fromkeys(["catalog-test", "search-test"], TESTED),
        "checkout-test": ["queued", "claimed", "reset-mocks", *TESTED[2:]],
        "rollback": ["skipped"],
        **dict.fromkeys(["payments", "summary"], DISPATCHED),
    }
    retry = next(event for event in healthy.told if event["id"] == "warm-cache-retry-2")
    assert (retry["level"], retry["reason"], retry["attempt"]) == ("warn", "exit_nonzero", 2)
    skipped = next(event for event in healthy.told if event["id"] == "rollback-skipped")
    assert (skipped["level"], skipped["reason"]) == ("info", "trigger_not_failed")
    assert healthy.detail["status"] == "Healthy"
    assert healthy.step("warm-cache")["attempt"] == 2


def test_two_suites_in_one_run_with_their_own_files_names_and_profiles(up: Up):
    """Every step of `composite` but the rollback is healthy (reference: control-plane 8, 14.3)."""
    composite = record(up, "", "composite")

    assert composite.detail["status"] == "Healthy", composite.detail["reasonDetail"]
    steps = {step["id"]: step["status"] for step in composite.detail["steps"]}
    assert steps.pop("shop/rollback") == "skipped"
    assert set(steps.values()) == {"healthy"}
    assert len(steps) == 15
    lines = [frame.data["line"] for frame in sse.frames(composite.logs)[:-1]]
    said = {line["text"] for line in lines if line["source"] == "open-for-business"}
    assert any(text.startswith('the shop says: {"schema"') for text in said), said
    posted = {line["text"] for line in lines if line["source"] == "hello/letters"}
    assert "Barbara has an answer" in posted, "a guest of verbose.yaml alone"


def test_a_broken_seed_runs_the_rollback_and_nothing_else(broken: Recording):
    """Invariants 3, 13 (reference: control-plane 11.5)."""
    told = {source: moves(events) for source, events in broken.by_source().items()}
    skipped = ["warm-cache", "catalog-test", "checkout-test", "search-test", "summary"]
    assert told == {
        "execution": ["queued", "booting", "failed"],
        **dict.fromkeys(["store", "migrate", "api", "rollback"], ORDINARY),
        "payments": DISPATCHED,
        "seed": ["queued", "claimed", "running", "failed"],
        **{step: ["skipped"] for step in skipped},
    }
    assert broken.detail["status"] == "Failed"
    assert broken.detail["reason"] == "step_failed"
    assert broken.detail["reasonDetail"] == "seed: exit_nonzero (exit code 1)"
    seed = {"stepId": "seed", "reason": "exit_nonzero", "exitCode": 1}
    cold = {"stepId": "warm-cache", "reason": "dependency_failed"}
    assert (broken.step("seed")["reason"], broken.step("seed")["exitCode"]) == ("exit_nonzero", 1)
    assert broken.step("warm-cache")["cause"] == [seed]
    assert broken.step("catalog-test")["reason"] == "dependency_skipped"
    assert broken.step("catalog-test")["cause"] == [cold, seed]
    assert broken.step("summary")["cause"][-1] == seed


def test_a_failure_is_told_at_once(broken: Recording):
    """`failing` is true in every record from the first hard failure on."""
    failed = [event["id"] for event in broken.told].index("seed-failed")
    assert broken.told[failed]["level"] == "error"
    live = [frame.data for frame in sse.frames(broken.events)[:-1]][failed:-1]
    assert all(record["failing"] for record in live)


def test_every_event_has_the_status_that_its_name_tells(recording: Recording):
    """The last event of a source carries its current status (reference: control-plane 11.2)."""
    steps = {step["id"]: step for step in recording.detail["steps"]}
    for source, events in recording.by_source().items():
        if source in steps:
            for event, move in zip(events, moves(events), strict=True):
                what = move.split("-")[0]
                assert event["status"] == STATUS_OF.get(what, what), event
            assert events[-1]["status"] == steps[source]["status"]
    assert len({event["id"] for event in recording.told}) == len(recording.told)
    assert recording.told[-1]["source"] == "execution"


def test_the_stream_is_dense_whole_and_what_get_shows(recording: Recording):
    """Invariants 4, 10 (reference: control-plane 12)."""
    for transcript, member in ((recording.events, "event"), (recording.logs, "line")):
        *records, end = sse.frames(transcript)
        assert [frame.id for frame in records] == list(range(1, len(records) + 1))
        assert {frame.event for frame in records} == {""}
        assert all(frame.data["id"] == frame.id and member in frame.data for frame in records)
        assert (end.event, end.id) == ("end", 0)
        assert end.data == {"status": recording.detail["status"], "lastId": len(records)}
    assert recording.told == recording.detail["events"]


def test_the_log_mirrors_every_event(recording: Recording):
    """One line of kind "" for each event, in their order (reference: control-plane 11.2)."""
    lines = [frame.data["line"] for frame in sse.frames(recording.logs)[:-1]]
    mirrors = [line for line in lines if line["kind"] == ""]
    assert [(line["source"], line["text"]) for line in mirrors] == [
        (event["source"], event["text"]) for event in recording.told
    ]


def test_numbered_lines_come_once_each(recording: Recording):
    """Invariants 10, 11."""
    printed: dict[tuple[str, int], list[str]] = defaultdict(list)
    for frame in sse.frames(recording.logs)[:-1]:
        line = frame.data["line"]
        if line["kind"] == "output" and (match := re.match(r"(\d+)/(\d+) ", line["text"])):
            printed[line["source"], line["attempt"]].append(match[0].strip())
    assert ("seed", 1) in printed
    for numbers in printed.values():
        assert numbers == [f"{n}/{len(numbers)}" for n in range(1, len(numbers) + 1)]


def test_both_streams_replay_the_same_bytes(up: Up, recording: Recording):
    """Invariants 10, 28: but for what is current and not historic."""
    run_id = recording.detail["id"]
    with up.client() as client:
        again = sse.recorded(client, f"/executions/{run_id}/logs", since="0")
        tail = sse.frames(sse.recorded(client, f"/executions/{run_id}/events", since="5"))
    assert again == recording.logs
    assert [frame.id for frame in tail[:-1]] == list(range(6, len(recording.told) + 1))
    assert {frame.data["executionStatus"] for frame in tail[:-1]} == {recording.detail["status"]}


# The recordings that are kept


def shape(transcript: str) -> Any:
    """What stays from run to run: what happened to each step, its kinds of lines, all keys."""
    *records, end = sse.frames(transcript)
    sources: dict[str, Any] = defaultdict(list)
    for frame in records:
        said = frame.data.get("event") or frame.data["line"]
        if frame.data.get("event"):
            facts = (said["id"], said["status"], said["level"], sorted(said))
            sources[said["source"]].append(facts)
        else:
            sources[said["source"]].append((said["kind"], sorted(said)))
    keys = sorted({key for frame in records for key in frame.data})
    lines = {key: sorted(set(map(str, found))) for key, found in sources.items()}
    return keys, lines if "line" in keys else dict(sources), sorted(end.data), end.data["status"]


def test_the_kept_recordings_still_tell_the_truth(name: str, recording: Recording):
    kept = {
        KEPT / f"{name}.events.sse": recording.events,
        KEPT / f"{name}.logs.sse": recording.logs,
    }
    if os.environ.get("PARTITA_RECORD"):
        KEPT.mkdir(exist_ok=True)
        for path, transcript in kept.items():
            path.write_text(transcript)
    for path, transcript in kept.items():
        assert shape(path.read_text()) == shape(transcript), path.name
