from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from apps.console.domain import display, layout
from apps.console.domain.graph_groups import group_siblings
from apps.console.views import same_site
from apps.executions.domain.states import StepStatus
from tests.apps.console import wire_samples


def boxes(drawing: layout.Drawing) -> dict[str, layout.Box]:
    return {box.id: box for box in drawing.boxes}


def test_a_dependency_is_always_drawn_to_the_left_of_what_needs_it():
    drawing = layout.draw(wire_samples.TOPOLOGY)

    placed = boxes(drawing)
    for node in wire_samples.TOPOLOGY:
        for need in node["dependsOn"]:
            assert placed[need].x + layout.NODE_WIDTH < placed[node["id"]].x


def test_nodes_of_a_column_never_overlap():
    drawing = layout.draw([wire_samples.node(f"n{number}", number // 10) for number in range(50)])

    for left in drawing.boxes:
        for right in drawing.boxes:
            if left.id < right.id and left.x == right.x:
                assert abs(left.y - right.y) >= layout.NODE_HEIGHT + layout.ROW_GAP


def test_every_known_dependency_is_one_edge_and_failure_edges_are_marked():
    drawing = layout.draw(wire_samples.TOPOLOGY)

    edges = {(edge.source, edge.target): edge.on_failure for edge in drawing.edges}
    assert len(edges) == sum(len(node["dependsOn"]) for node in wire_samples.TOPOLOGY)
    assert edges["checkout", "rollback"]
    assert not edges["store", "rollback"]


def test_a_long_edge_passes_beside_the_nodes_between():
    nodes = [
        wire_samples.node("a", 0),
        wire_samples.node("b", 1, ("a",)),
        wire_samples.node("c", 2, ("a", "b")),
    ]

    drawing = layout.draw(nodes)

    between = boxes(drawing)["b"]
    long_edge = next(edge for edge in drawing.edges if (edge.source, edge.target) == ("a", "c"))
    flat_y = float(long_edge.path.split("H")[0].split()[-1])
    assert not between.y <= flat_y <= between.y + layout.NODE_HEIGHT


def chains(count: int) -> list[dict[str, Any]]:
    """A service, `load-1…n` after it, `test-1…n` after the load of its number, and a cleanup."""
    numbers = range(1, count + 1)
    return [
        wire_samples.node("db", 0),
        *(wire_samples.node(f"load-{n}", 1, ("db",)) for n in numbers),
        *(wire_samples.node(f"test-{n}", 2, (f"load-{n}",)) for n in numbers),
        wire_samples.node("report", 3, tuple(f"test-{n}" for n in numbers)),
    ]


def test_siblings_are_one_node_and_their_edges_one_edge():
    nodes = [each | {"status": "healthy"} for each in chains(12)]
    nodes[5]["status"] = "failed"

    grouped = {node["id"]: node for node in group_siblings(nodes)}

    assert list(grouped) == ["db", "load-1…12", "test-1…12", "report"]
    load = grouped["load-1…12"]
    assert [mark["id"] for mark in load["members"]] == [f"load-{n}" for n in range(1, 13)]
    assert (load["status"], grouped["test-1…12"]["status"]) == ("failed", "healthy")
    assert grouped["test-1…12"]["dependsOn"] == ["load-1…12"]
    assert grouped["report"]["dependsOn"] == ["test-1…12"]


def test_an_open_group_is_drawn_as_its_steps():
    grouped = {node["id"]: node for node in group_siblings(chains(4), ["load-1…4"])}

    assert len(grouped) == 7
    assert grouped["test-1…4"]["dependsOn"] == ["load-1", "load-2", "load-3", "load-4"]
    drawing = layout.draw(list(grouped.values()))
    assert drawing.groups == ("load-1…4", "test-1…4")
    assert drawing.has_closed_group


def test_steps_that_differ_in_what_they_need_or_are_do_not_become_one_node():
    nodes = chains(4)
    nodes[2]["dependsOn"] = []  # load-2 needs nothing
    nodes[7]["kind"] = "service"  # test-3

    grouped = [node["id"] for node in group_siblings(nodes)]

    assert len(grouped) == len(nodes)
    assert [node["id"] for node in group_siblings(chains(2))] == [n["id"] for n in chains(2)]


def test_numbers_in_names_sort_as_numbers():
    names = ["test-10", "test-2", "a", "test-1b", "test-1"]

    assert sorted(names, key=display.natural_key) == ["a", "test-1", "test-1b", "test-2", "test-10"]


def test_sparse_levels_unknown_needs_and_no_nodes_are_drawn_too():
    drawing = layout.draw([wire_samples.node("a", 0), wire_samples.node("b", 7, ("a", "gone"))])

    assert len(drawing.edges) == 1
    assert drawing.width == 2 * layout.MARGIN + 2 * layout.NODE_WIDTH + layout.COLUMN_GAP
    assert layout.draw([]) == layout.Drawing(width=0, height=0, boxes=(), edges=())


def test_the_same_topology_gives_the_same_drawing():
    assert layout.draw(wire_samples.TOPOLOGY) == layout.draw(wire_samples.TOPOLOGY)


@pytest.mark.parametrize(
    "path", ["/", "/executions/run-1?x=1#L5", "/suites/a.b", "/?q=" + "x" * 3000]
)
def test_a_path_of_this_site_is_followed(path: str):
    assert same_site(path) == path


@pytest.mark.parametrize(
    "path",
    [
        *(
            "",
            "x",
            "//evil",
            "/\\evil",
            "https://evil/",
            "javascript:alert(1)",
            "/\t/evil",
            "/a\nb",
        ),
        *("//evil?" + "x" * 3000, "/" + "x" * 2048, "/a\u00a0b", "/a\u200bb"),
    ],
)
def test_a_path_of_another_site_is_not_followed(path: str):
    assert same_site(path) == "/"


def test_the_line_of_an_error_is_split_at_its_column():
    lines = display.numbered_lines("one\ntwo", {"line": 2, "column": 2})

    assert lines[0] == display.SourceLine(number=1, before="one")
    assert lines[1] == display.SourceLine(number=2, before="t", at="w", after="o", is_error=True)


def test_an_error_at_the_end_of_a_line_or_without_column_is_shown_too():
    assert display.numbered_lines("one", {"line": 1, "column": 99})[0].at == " "
    assert display.numbered_lines("one", {"line": 1})[0].is_error
    assert not any(line.is_error for line in display.numbered_lines("one"))


def test_an_error_belongs_to_its_file_only():
    error = {"line": 1, "file": "tasks/a.star"}

    assert display.error_in("tasks/a.star", error) == error
    assert display.error_in("suite.star", error) is None
    assert display.error_in("suite.star", {"line": 1}) == {"line": 1}
    assert display.error_in("suite.star", None) is None


def test_a_run_that_fails_but_goes_on_says_both():
    assert display.run_display("Booting", failing=True).label == "Booting, failing"
    assert display.run_display("Booting", failing=True, begun=True).label == "Running, failing"
    assert display.run_display("Failed", failing=True) == display.StatusDisplay(
        key="failed", label="Failed"
    )
    assert display.run_display("Healthy").key == "healthy"
    assert display.step_display("queued").label == "Queued"


def test_a_run_runs_once_a_step_is_healthy():
    assert display.run_display("Booting").label == "Booting"
    assert display.run_display("Booting", begun=True) == display.StatusDisplay(
        key="running", label="Running"
    )
    assert display.run_display("Canceling", begun=True).label == "Canceling"


def test_the_reason_of_a_step_is_words_that_follow_its_status():
    failed = {"reason": "exit_nonzero", "detail": "exit code 3", "exitCode": 3}

    assert display.step_reason(failed) == "exited with code 3"
    assert display.step_reason({"reason": "dependency_failed"}) == "a step that it needs failed"
    assert display.step_reason({"reason": "brand_new"}) == "brand new"
    assert display.step_reason({}) == ""


@pytest.mark.parametrize(
    ("reason", "detail", "more"),
    [
        ("exit_nonzero", "exit code 3", ""),
        ("test_failures", "1 of 12 tests failed", ""),
        ("image_missing", "image a:1 could not be pulled: no such host", "no such host"),
        ("internal_error", "x" * 900, "x" * 900),
    ],
)
def test_the_detail_of_a_step_is_shown_if_it_says_more(reason: str, detail: str, more: str):
    shown = display.step_detail({"reason": reason, "detail": detail, "exitCode": 3})

    assert bool(shown) is bool(more)
    assert shown.endswith(more)


def test_every_status_is_displayed():
    assert set(display.STEP_ORDER) == set(StepStatus)


def test_a_row_has_the_sentence_of_its_run_unless_all_is_well():
    words = {"failing": False, "sentence": "words"}

    assert display.run_reason({**words, "status": "Healthy"}) == ""
    assert display.run_reason({**words, "status": "Booting"}) == ""
    assert display.run_reason({**words, "status": "Booting", "failing": True}) == "words"
    for status in ("Queued", "Canceling", "Canceled", "Failed"):
        assert display.run_reason({**words, "status": status}) == "words"


def test_a_cause_chain_reads_from_the_nearest_to_the_root():
    chain: list[Any] = [
        {"stepId": "api", "reason": "dependency_failed"},
        {"stepId": "db", "reason": "exit_nonzero", "exitCode": 3},
        {"stepId": "nopull", "reason": "image_missing"},
    ]

    assert display.cause_links(chain) == [
        ("api", " was skipped because a step that it needs failed"),
        ("db", " exited with code 3"),
        ("nopull", ": the image could not be pulled"),
    ]


def test_the_process_runtime_is_recognised_by_its_label():
    assert not display.is_isolated("Local processes (not isolated)")
    assert display.is_isolated("Local Docker")


def test_counts_come_in_reading_order_without_zeros():
    steps = wire_samples.detail()["steps"]

    assert display.counts(steps) == display.overview_counts(wire_samples.overview_item())
    assert list(display.counts(steps)) == [
        "failed", "running", "healthy", "queued", "pending", "skipped",
    ]  # fmt: skip


def test_a_run_has_a_tick_a_step_and_bars_when_there_are_many():
    few = display.ticks({"failed": 1, "healthy": 3})
    many = display.ticks({"failed": 1, "healthy": 999})

    assert [tick.status for tick in few] == ["failed", "healthy", "healthy", "healthy"]
    assert [tick.status for tick in many] == ["failed", "healthy"]
    assert many[-1].x + many[-1].width <= display.TICKS_WIDTH
    assert display.ticks({}) == []


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [(None, ""), (0, "0 ms"), (12_400, "12.4 s"), (185_000, "3 m 05 s"), (7_800_000, "2 h 10 m")],
)
def test_durations_are_short(duration_ms: int | None, text: str):
    assert display.duration(duration_ms) == text


@pytest.mark.parametrize(("hour", "text"), [(3, "just now"), (4, "59 min ago"), (9, "5 h ago")])
def test_a_past_time_is_told_relative_to_now(hour: int, text: str):
    now = datetime(2026, 1, 2, hour, 4, 0 if hour != 3 else 10, tzinfo=UTC)

    assert display.ago(wire_samples.STARTED, now) == text


@pytest.mark.parametrize(
    ("figures", "text"),
    [
        ({}, ""),
        ({"cpuPercent": 12.4}, "12 % CPU"),
        ({"memoryPeakBytes": 2048}, "peak 2.0 KiB"),
        (
            {"cpuPercent": 130.0, "memoryBytes": 34 * 2**20, "memoryPeakBytes": 40 * 2**20},
            "130 % CPU · 34.0 MiB (peak 40.0 MiB)",
        ),
    ],
)
def test_usage_is_one_plain_line(figures: dict[str, float], text: str):
    assert display.usage_text(figures) == text


def test_sizes_carry_their_unit():
    assert [display.size_text(count) for count in (12, 3482, 5 * 2**20, 3 * 2**30)] == [
        "12 B", "3.4 KiB", "5.0 MiB", "3.0 GiB",
    ]  # fmt: skip
