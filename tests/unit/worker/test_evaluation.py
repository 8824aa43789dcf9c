"""Verdicts, readiness and export paths (reference: control-plane 7.4, 11.5)."""

from __future__ import annotations

import pytest

from worker.domain.evaluation import LogMatches, UnitExit, judge
from worker.domain.exports import SUITE_FILE_MTIME, search_shared, searches
from worker.domain.readiness import (
    CommandProbe,
    HttpProbe,
    ImageProbe,
    LogProbe,
    StillRunning,
    TcpProbe,
    choose_probe,
)
from worker.domain.runtime import Folders, PathRefused
from worker.domain.step_spec import Port, Ready, StepEvaluation, StepNode

CLEAN = LogMatches()
FOLDERS = Folders(workspace="/w", step="/s", artifacts="/a")


def test_an_attempt_without_findings_succeeded() -> None:
    assert judge(StepEvaluation(), UnitExit(exit_code=0), CLEAN).succeeded


def test_the_first_finding_is_the_reason_and_the_detail_has_all() -> None:
    logs = LogMatches(missing=("done",), matched=("oops",))

    verdict = judge(StepEvaluation(), UnitExit(exit_code=137, oom_killed=True), logs)

    assert verdict.reason == "oom_killed"
    assert [finding.reason for finding in verdict.failures] == [
        "oom_killed",
        "exit_nonzero",
        "fail_on_logs_matched",
        "expect_logs_missing",
    ]
    assert "exit code 137" in verdict.detail


def test_the_code_of_a_program_stopped_for_its_timeout_says_nothing() -> None:
    verdict = judge(StepEvaluation(), UnitExit(exit_code=143), CLEAN, timed_out_ms=1500)

    assert (verdict.reason, verdict.detail) == ("timeout", "still running after 1.5 s")


def test_another_code_than_the_expected_one() -> None:
    verdict = judge(StepEvaluation(expect_exit=3), UnitExit(exit_code=0), CLEAN)

    assert (verdict.reason, verdict.detail) == ("exit_unexpected", "exit code 0, expected 3")


@pytest.mark.parametrize(
    ("ready", "ports", "checks", "probe"),
    [
        (None, (Port(number=53, protocol="udp"), Port(number=80)), True, TcpProbe(port=80)),
        (None, (), True, ImageProbe()),
        (None, (), False, StillRunning()),
        (Ready(http="/up"), (Port(number=80),), False, HttpProbe(path="/up", port=80)),
        (Ready(http="/up", port=81), (Port(number=80),), False, HttpProbe(path="/up", port=81)),
        (Ready(tcp=5432), (), False, TcpProbe(port=5432)),
        (Ready(log="open"), (Port(number=80),), False, LogProbe(text="open")),
        (Ready(command=("true",)), (), False, CommandProbe(argv=("true",))),
    ],
)
def test_the_probe_of_a_service(
    ready: Ready | None, ports: tuple[Port, ...], checks: bool, probe: object
) -> None:
    node = StepNode(id="s", name="s", kind="service", ready=ready, ports=ports)

    assert choose_probe(node, image_has_health_check=checks) == probe


def test_http_passes_from_200_to_399_unless_declared() -> None:
    assert HttpProbe(path="/", port=1).passes(302)
    assert not HttpProbe(path="/", port=1).passes(404)
    assert HttpProbe(path="/", port=1, statuses=frozenset({404})).passes(404)


@pytest.mark.parametrize(
    ("path", "found", "not_found"),
    [
        ("a.xml", "/a/a.xml", "/a/b/a.xml"),
        ("*.xml", "/a/a.xml", "/a/b/a.xml"),
        ("**/*.xml", "/a/b/c/a.xml", "/a/b/a.txt"),
        ("**/*.xml", "/a/a.xml", "/b/a.xml"),
        ("r?.txt", "/a/r1.txt", "/a/r12.txt"),
        ("./out/x+y.txt", "/a/out/x+y.txt", "/a/out/xxy.txt"),
    ],
)
def test_export_globs(path: str, found: str, not_found: str) -> None:
    search = searches(path, FOLDERS)[0]

    assert search.matches(found)
    assert not search.matches(not_found)


def test_only_the_part_without_globs_is_looked_into() -> None:
    artifacts, step = searches("reports/**/*.xml", FOLDERS)

    assert (artifacts.folder, step.folder) == ("/a/reports", "/s/reports")
    assert artifacts.strip_prefix("/a/reports/x.xml") == "reports/x.xml"


def test_an_absolute_path_is_taken_as_it_is() -> None:
    assert [each.folder for each in searches("/var/log/*.log", FOLDERS)] == ["/var/log"]
    assert search_shared("/var/log/x.log", FOLDERS) is None


def test_a_relative_path_is_never_looked_for_in_the_shared_directory() -> None:
    found = searches("report.xml", FOLDERS, working="/app")

    assert [each.folder for each in found] == ["/a/report.xml", "/s/report.xml", "/app/report.xml"]
    assert found[2].strip_prefix("/app/report.xml") == "report.xml"


def test_a_glob_does_not_search_the_root_of_an_image_and_a_name_does() -> None:
    globbed, named = (searches(path, FOLDERS, working="/") for path in ("*.xml", "report.xml"))

    assert [each.folder for each in globbed] == ["/a", "/s"]
    assert named[2].folder == "/report.xml"
    assert named[2].strip_prefix("/report.xml") == "report.xml"


def test_a_file_of_the_suite_that_the_step_did_not_write_is_no_result() -> None:
    artifacts, step = searches("report.xml", FOLDERS)

    assert not step.matches("/s/report.xml", mtime=SUITE_FILE_MTIME)
    assert step.matches("/s/report.xml", mtime=SUITE_FILE_MTIME + 1)
    assert artifacts.matches("/a/report.xml", mtime=SUITE_FILE_MTIME)


def test_a_path_that_climbs_is_refused() -> None:
    with pytest.raises(PathRefused):
        searches("reports/../../etc/passwd", FOLDERS)
