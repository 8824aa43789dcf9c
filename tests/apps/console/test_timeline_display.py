"""The timeline as its page draws it: the axis, the bars, and the same in words."""

from __future__ import annotations

from typing import Any

import pytest
from django.template.loader import render_to_string

from apps.console.domain.timeline_display import axis_ticks, timeline_context

STEPS: list[Any] = [
    {"id": "late", "name": "late", "kind": "task", "status": "pending", "attempts": []},
    {
        "id": "db<b>", "name": "db", "kind": "service", "status": "healthy",
        "attempts": [
            {
                "number": 1, "startMs": 100, "lengthMs": 900,
                "segments": [
                    {"kind": "queued", "startMs": 100, "lengthMs": 100},
                    {"kind": "running", "startMs": 200, "lengthMs": 800, "open": True},
                ],
            }
        ],
    },
    {
        "id": "note", "name": "note", "kind": "log", "status": "healthy",
        "attempts": [
            {"number": 1, "startMs": 50, "lengthMs": 0, "outcome": "healthy", "segments": []}
        ],
    },
]  # fmt: skip


def context(**facts: Any) -> dict[str, Any]:
    body: Any = {
        "id": "run-0123456789ab", "status": "Booting", "startedAt": "2026-01-02T03:04:05.678Z",
        "durationMs": 1000, "isOver": False, "sentence": "It <ran>.", "steps": STEPS,
        "criticalPath": [{"stepId": "db<b>", "startMs": 100, "lengthMs": 250, "waitMs": 0}],
    }  # fmt: skip
    return timeline_context(body | facts)


@pytest.mark.parametrize(
    ("duration_ms", "texts"),
    [
        (1, ["0", "1 ms"]),
        (1_000, ["0", "200 ms", "400 ms", "600 ms", "800 ms", "1 s"]),
        (28_000, ["0", "5 s", "10 s", "15 s", "20 s", "25 s"]),
        (400_000, ["0", "2:00", "4:00", "6:00"]),
        (5_400_000, ["0", "15:00", "30:00", "45:00", "1:00:00", "1:15:00", "1:30:00"]),
    ],
)
def test_the_axis_has_round_times(duration_ms: int, texts: list[str]) -> None:
    assert [tick.text for tick in axis_ticks(duration_ms)] == texts


def test_rows_are_in_the_order_in_which_steps_began() -> None:
    rows = context()["rows"]

    assert [row.step["id"] for row in rows] == ["note", "db<b>", "late"]
    assert [row.words for row in rows] == [
        "done at once; healthy",
        "queued 100 ms from 100 ms, running 800 ms so far from 200 ms; goes on",
        "pending, not queued",
    ]


def test_bars_are_shares_of_the_run() -> None:
    _, db, _ = context()["rows"]

    assert [(bar.kind, bar.start, bar.width) for bar in db.bars] == [
        ("queued", "10%", "10%"),
        ("running", "20%", "80%"),
    ]
    assert db.link == ("10%", "25%")


def test_names_and_sentences_are_escaped() -> None:
    html = render_to_string("console/_timeline.html", context())

    assert "It &lt;ran&gt;." in html
    assert "db&lt;b&gt;" in html
    assert "db<b>" not in html


def test_a_run_of_no_time_is_drawn() -> None:
    assert context(durationMs=0, steps=[], criticalPath=[])["rows"] == []
