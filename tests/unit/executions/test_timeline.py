"""The timeline of a run: segments of attempts, the critical path, and the sentence."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.executions.domain.critical_path import (
    RunSpan,
    critical_path,
    waiting_sentence,
)
from apps.executions.domain.events import event_id, event_name
from apps.executions.domain.timeline import StepFacts, StepMark, step_timelines
from kernel.durations import rounded_duration
from partita_client.command.run_timeline import bar, timeline_lines

NAMES = (
    "queued", "claimed", "image-pull", "running", "adopted", "healthy", "artifacts", "retry",
    "requeued", "reset", "failed", "canceled", "skipped",
)  # fmt: skip


def step(
    id_: str,
    marks: str,
    *,
    kind: str = "task",
    status: str = "healthy",
    ended_ms: int | None = None,
) -> StepFacts:
    """A step with marks such as `queued 0, claimed 10`; an attempt follows a `#`."""
    read = []
    for mark in filter(None, marks.split(", ")):
        name, _, at = mark.partition(" ")
        at, _, attempt = at.partition("#")
        read.append(StepMark(name=name, at_ms=int(at), attempt=int(attempt or 1)))
    return StepFacts(
        id=id_, name=id_, kind=kind, status=status, ended_ms=ended_ms, marks=tuple(read)
    )


def drawn(facts: StepFacts, *, duration_ms: int = 1000, is_over: bool = True) -> list[str]:
    """Each attempt as a line: number, outcome, and segments as `kind start+length`."""
    (timeline,) = step_timelines([facts], duration_ms=duration_ms, is_over=is_over)
    return [
        " ".join(
            [
                f"{attempt['number']} {attempt.get('outcome', '…')}:",
                *(
                    f"{part['kind']} {part['startMs']}+{part['lengthMs']}"
                    + ("…" if part.get("open") else "")
                    for part in attempt["segments"]
                ),
            ]
        )
        for attempt in timeline["attempts"]
    ]


@pytest.mark.parametrize(
    ("marks", "kind", "lines"),
    [
        ("", "task", []),
        (
            "queued 0, claimed 10, running 30, healthy 80",
            "task",
            ["1 healthy: queued 0+10 start 10+20 running 30+50"],
        ),
        (
            "queued 0, claimed 10, image-pull 15, running 30, healthy 80",
            "task",
            ["1 healthy: queued 0+10 start 10+5 pull 15+15 running 30+50"],
        ),
        (
            "queued 0, claimed 10, running 30, healthy 80",
            "service",
            ["1 healthy: queued 0+10 start 10+20 ready 30+50 running 80+820"],
        ),
        ("queued 5, claimed 5, healthy 45", "mock", ["1 healthy: ready 5+40"]),
        ("queued 5, claimed 5, healthy 5", "log", ["1 healthy:"]),
        (
            "queued 0, claimed 10, running 20, retry 30#2, claimed 50#2, running 60#2,"
            " healthy 90#2",
            "task",
            [
                "1 failed: queued 0+10 start 10+10 running 20+10",
                "2 healthy: queued 30+20 start 50+10 running 60+30",
            ],
        ),
        (
            "queued 0, claimed 1, running 2, healthy 10, requeued 20#2, claimed 30#2, running 31#2,"
            " healthy 40#2",
            "service",
            [
                "1 requeued: queued 0+1 start 1+1 ready 2+8 running 10+10",
                "2 healthy: queued 20+10 start 30+1 ready 31+9 running 40+860",
            ],
        ),
        (
            "queued 0, claimed 1, running 2, reset 20, queued 30#2, claimed 31#2, running 32#2,"
            " healthy 40#2",
            "task",
            [
                "1 reset: queued 0+1 start 1+1 running 2+18",
                "2 healthy: queued 30+1 start 31+1 running 32+8",
            ],
        ),
        ("queued 0, skipped 20", "task", ["1 skipped: queued 0+20"]),
        ("queued 0, claimed 10, canceled 20", "task", ["1 canceled: queued 0+10 start 10+10"]),
        (
            "queued 0, claimed 10, running 20, image-pull 25, adopted 30, running 40, failed 50",
            "task",
            ["1 failed: queued 0+10 start 10+10 running 20+30"],
        ),
    ],
)
def test_events_become_segments(marks: str, kind: str, lines: list[str]) -> None:
    assert drawn(step("a", marks, kind=kind, ended_ms=900)) == lines


def test_what_goes_on_is_open_until_now() -> None:
    facts = step("a", "queued 0, claimed 10, running 20", status="running")

    assert drawn(facts, is_over=False) == ["1 …: queued 0+10 start 10+10 running 20+980…"]


def test_what_never_ended_ends_with_its_run() -> None:
    facts = step("a", "queued 0, claimed 10", status="canceled")

    assert drawn(facts) == ["1 canceled: queued 0+10 start 10+990"]


@pytest.mark.parametrize("source", ["api", "a-2", "outer/in-1"])
@pytest.mark.parametrize("attempt", [1, 2, 12])
@pytest.mark.parametrize("nth", [1, 3])
def test_the_name_of_an_event_is_read_from_its_id(source: str, attempt: int, nth: int) -> None:
    identifier = event_id(source, "image-pull", attempt=attempt, nth=nth)

    assert event_name(identifier, source, attempt=attempt) == "image-pull"


def analyzed(
    *facts: StepFacts, duration_ms: int = 1000, booted_ms: int | None = 0, is_over: bool = True,
    needs: dict[str, list[str]] | None = None,
) -> tuple[list[str], str]:  # fmt: skip
    """The path as `step start+length (wait)`, and the sentence."""
    steps = step_timelines(facts, duration_ms=duration_ms, is_over=is_over)
    links = critical_path(steps, needs or {}, booted_ms=booted_ms or 0)
    span = RunSpan(duration_ms=duration_ms, booted_ms=booted_ms, is_over=is_over)
    path = [
        f"{each['stepId']} {each['startMs']}+{each['lengthMs']} ({each['waitMs']})"
        for each in links
    ]
    return path, waiting_sentence(steps, links, span)


DB = step("db", "queued 10, claimed 20, image-pull 20, running 420, healthy 500", kind="service")
SEED = step("seed", "queued 10, claimed 20, running 30, healthy 90", ended_ms=90)
CHECK = step("check", "queued 500, claimed 510, running 520, healthy 980", ended_ms=980)
NEEDS = {"check": ["db", "seed"]}


def test_the_path_goes_back_through_the_dependency_satisfied_last() -> None:
    path, sentence = analyzed(DB, SEED, CHECK, needs=NEEDS)

    assert path == ["db 10+490 (10)", "check 500+480 (0)"]
    assert sentence == (
        "The longest wait was 400 ms to pull the image of db. check ran for 460 ms, 46% of the run."
    )


def test_a_service_ends_the_path_when_it_was_ready() -> None:
    assert analyzed(DB, SEED)[0] == ["db 10+490 (10)"]


def test_a_service_that_failed_later_ends_the_path_then() -> None:
    broken = step(
        "db", "queued 10, claimed 20, running 30, healthy 50, failed 950", kind="service",
        status="failed", ended_ms=950,
    )  # fmt: skip

    assert analyzed(broken, SEED)[0] == ["db 10+940 (10)"]


def test_retries_are_one_link_and_the_pause_is_named() -> None:
    again = step(
        "check", "queued 100, claimed 110, running 120, retry 200#2, claimed 700#2,"
        " running 710#2, healthy 990#2", ended_ms=990,
    )  # fmt: skip

    path, sentence = analyzed(SEED, again, needs={"check": ["seed"]})

    assert path == ["seed 10+80 (10)", "check 100+890 (10)"]
    assert sentence.startswith("The longest wait was 500 ms before attempt 2 of check.")
    assert "check ran for 360 ms, 36% of the run." in sentence


def test_a_service_that_started_again_leads_to_its_last_start() -> None:
    db = step(
        "db", "queued 0, claimed 1, running 2, healthy 50, requeued 400#2, claimed 410#2,"
        " running 420#2, healthy 500#2", kind="service", ended_ms=1000,
    )  # fmt: skip
    check = step(
        "check", "queued 50, claimed 60, running 70, reset 400, queued 500#2, claimed 510#2,"
        " running 520#2, healthy 980#2", ended_ms=980,
    )  # fmt: skip

    assert analyzed(db, check, needs={"check": ["db"]})[0] == [
        "db 400+100 (400)",
        "check 500+480 (0)",
    ]


def test_a_cleanup_follows_the_failure_that_triggered_it() -> None:
    failed = step("check", "queued 0, claimed 5, running 10, failed 300", status="failed")
    cleanup = step("cleanup", "queued 300, claimed 310, running 320, healthy 400", ended_ms=400)
    skipped = step("later", "skipped 400", status="skipped", ended_ms=400)

    path, _ = analyzed(failed, cleanup, skipped, needs={"cleanup": ["check"], "later": ["check"]})

    assert path == ["check 0+300 (0)", "cleanup 300+100 (0)"]


@pytest.mark.parametrize(
    ("facts", "span", "sentence"),
    [
        ((), {"booted_ms": None, "is_over": False}, "The run has been in the queue for 1 s."),
        ((), {"booted_ms": None}, "The run ended after 1 s in the queue; no step started."),
        ((), {"is_over": False}, "No step has started yet."),
        ((step("a", "skipped 3", status="skipped"),), {}, "No step started."),
        (
            (step("a", "queued 800, claimed 800, running 800, healthy 990", ended_ms=990),),
            {"booted_ms": 800},
            "The longest wait was 800 ms in the queue, before the run was admitted."
            " a ran for 190 ms, 19% of the run.",
        ),
        (
            (step("a", "queued 300, claimed 300, running 300, healthy 990", ended_ms=990),),
            {},
            "The longest wait was 300 ms for a free slot for a. a ran for 690 ms, 69% of the run.",
        ),
        (
            (step("a", "queued 0, claimed 0, running 0", status="running"),),
            {"is_over": False},
            "The run hardly had to wait so far. a has run for 1 s, 100% of the run so far.",
        ),
        (
            (step("a", "queued 0", status="queued"),),
            {"is_over": False},
            "The longest wait so far was 1 s for a runner to claim a.",
        ),
        (
            (step("a", "queued 0, claimed 20, running 200", kind="service", status="running"),),
            {"is_over": False},
            "The longest wait so far was 800 ms for a to become ready.",
        ),
        (
            (step("a", "queued 0, claimed 20, failed 900", status="failed", ended_ms=900),),
            {},
            "The longest wait was 880 ms for a to start.",
        ),
    ],
)  # fmt: skip
def test_the_sentence_names_the_longest_wait(
    facts: tuple[StepFacts, ...], span: dict[str, Any], sentence: str
) -> None:
    assert analyzed(*facts, **span)[1] == sentence


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [(0, "0 ms"), (999, "999 ms"), (1_000, "1 s"), (4_249, "4.2 s"), (41_400, "41 s"),
     (125_400, "2 min 5 s"), (7_200_000, "2 h")],
)  # fmt: skip
def test_durations_are_rounded_for_people(duration_ms: int, text: str) -> None:
    assert rounded_duration(duration_ms) == text


MARKS = st.lists(
    st.builds(
        StepMark,
        name=st.sampled_from(NAMES),
        at_ms=st.integers(0, 5_000),
        attempt=st.integers(1, 4),
    ),
    max_size=14,
)


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[StepFacts], dict[str, list[str]], RunSpan]:
    """Steps with events in any order, and needs without cycles."""
    count = draw(st.integers(1, 5))
    facts = [
        StepFacts(
            id=f"s{number}",
            name=f"s{number}",
            kind=draw(st.sampled_from(["service", "task", "test", "mock", "log"])),
            status=draw(st.sampled_from(["healthy", "failed", "skipped", "running", "canceled"])),
            ended_ms=draw(st.none() | st.integers(0, 5_000)),
            marks=tuple(draw(MARKS)),
        )
        for number in range(count)
    ]
    needs = {
        f"s{number}": [f"s{one}" for one in draw(st.sets(st.integers(0, number - 1)))]
        for number in range(1, count)
    }
    duration_ms = draw(st.integers(1, 5_000))
    booted_ms = draw(st.none() | st.integers(0, duration_ms))
    return (
        facts,
        needs,
        RunSpan(duration_ms=duration_ms, booted_ms=booted_ms, is_over=draw(st.booleans())),
    )


@given(runs())
def test_whatever_the_events_segments_are_in_order_and_the_path_fits_into_the_run(
    run: tuple[list[StepFacts], dict[str, list[str]], RunSpan],
) -> None:
    facts, needs, span = run

    steps = step_timelines(facts, duration_ms=span.duration_ms, is_over=span.is_over)
    links = critical_path(steps, needs, booted_ms=span.booted_ms or 0)

    for timeline in steps:
        end_ms = 0
        for attempt in timeline["attempts"]:
            assert attempt["startMs"] >= end_ms
            assert sum(part["lengthMs"] for part in attempt["segments"]) == attempt["lengthMs"]
            end_ms = attempt["startMs"]
            for part in attempt["segments"]:
                assert part["startMs"] == end_ms
                end_ms += part["lengthMs"]
            assert end_ms <= span.duration_ms
            assert ("outcome" in attempt) or attempt is timeline["attempts"][-1]
            assert span.is_over <= ("outcome" in attempt)
    assert sum(link["lengthMs"] for link in links) <= span.duration_ms
    assert all(link["lengthMs"] >= 0 and link["waitMs"] >= 0 for link in links)
    ends = [link["startMs"] + link["lengthMs"] for link in links]
    assert all(end <= link["startMs"] for end, link in zip(ends, links[1:], strict=False))
    assert waiting_sentence(steps, links, span).endswith(".")


def test_a_bar_has_a_mark_for_each_part_of_the_run() -> None:
    (timeline,) = step_timelines([DB], duration_ms=1000, is_over=True)

    assert bar(timeline, 1000, 20) == "~~~~~~~~--##########"


def test_the_terminal_shows_the_path_and_a_legend() -> None:
    steps = step_timelines([DB, SEED, CHECK, step("x", "")], duration_ms=1000, is_over=True)
    links = critical_path(steps, NEEDS)
    body: Any = {
        "id": "run-0123456789ab", "durationMs": 1000, "sentence": "It ran.", "criticalPath": links,
        "steps": steps,
    }  # fmt: skip

    lines = timeline_lines(body, width=40)

    assert lines[0] == "run-0123456789ab: 1 s. It ran."
    assert [line[:9].rstrip() for line in lines[1:-2]] == ["*  db", "   seed", "*  check"]
    assert lines[-2:] == [
        "1 step not queued",
        ". queued  : start  ~ pull  - ready  # running  * critical path",
    ]
    assert len(timeline_lines(body, width=40, only_critical=True)) == 4
