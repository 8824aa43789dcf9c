"""Exports from the shared directory by steps that may run at once (control-plane 7.4)."""

from __future__ import annotations

from typing import Any

import pytest

from apps.suites.domain.export_clashes import find_export_clashes, refuse_export_clashes
from apps.suites.domain.problems import TopologyProblem

SHARED = "/partita/workspace"


def step(
    id_: str, *paths: str, needs: tuple[str, ...] = (), kind: str = "test", **more: str
) -> Any:
    exports = [{"path": path, "format": more.get("format", "junit")} for path in paths]
    return {"id": id_, "kind": kind, "dependsOn": list(needs), "artifactExports": exports}


def clashing(*topology: Any) -> list[tuple[str, str, bool]]:
    return [(each.first, each.second, each.is_certain) for each in find_export_clashes(topology)]


def test_one_report_of_two_steps_at_once_is_refused_where_the_second_is_declared() -> None:
    topology = [step("red", f"{SHARED}/report.xml"), step("green", f"{SHARED}/./report.xml")]

    with pytest.raises(TopologyProblem) as refused:
        refuse_export_clashes(topology, {"green": {"file": "suite.star", "line": 7}})

    assert (refused.value.code, refused.value.line) == ("export_clash", 7)
    assert "as red does" in refused.value.message


@pytest.mark.parametrize("path", ["report.xml", "/partita/step/report.xml", "/tmp/report.xml"])
def test_a_path_of_the_steps_own_never_clashes(path: str) -> None:
    assert clashing(step("red", path), step("green", path)) == []


def test_steps_in_order_do_not_clash_however_far_apart() -> None:
    path = f"{SHARED}/report.xml"

    found = clashing(step("a", path), step("b", needs=("a",)), step("c", path, needs=("b",)))

    assert found == []


def test_nothing_waits_for_the_end_of_a_service() -> None:
    path = f"{SHARED}/report.xml"

    found = clashing(step("server", path, kind="service"), step("t", path, needs=("server",)))

    assert found == [("server", "t", True)]


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        (f"{SHARED}/out/*.xml", f"{SHARED}/out/a.xml", True),
        (f"{SHARED}/**/*.xml", f"{SHARED}/out/*.xml", True),
        (f"{SHARED}/a/*.xml", f"{SHARED}/b/*.xml", False),
        (f"{SHARED}/a.xml", f"{SHARED}/b.xml", False),
    ],
)
def test_patterns_that_may_match_one_file_are_warned_about(
    one: str, other: str, overlap: bool
) -> None:
    found = clashing(step("a", one), step("b", other))

    assert found == ([("a", "b", False)] if overlap else [])


def test_one_plain_file_of_two_steps_is_a_warning_only() -> None:
    path = f"{SHARED}/data.bin"

    assert clashing(step("a", path, format="raw"), step("b", path, format="raw")) == [
        ("a", "b", False)
    ]
