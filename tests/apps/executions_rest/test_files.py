from __future__ import annotations

from datetime import timedelta
from xml.etree import ElementTree as ET

import pytest

from apps.executions.models import Step
from kernel import clock
from tests.apps.executions_rest.conftest import make_artifact, make_run
from tests.support.api_clients import problem

BODY = b"0123456789"


@pytest.fixture
def path(ada):
    row = make_run(ada.workspace_id)
    make_artifact(row, BODY)
    return f"executions/{row.run_id}/artifacts/check-report-raw"


def test_an_artifact_comes_as_an_attachment_that_cannot_act(ada, path):
    """Invariant 30's twin for files that a suite made."""
    answer = ada.get(path)

    assert answer.content == BODY
    assert answer["Content-Type"] == "text/plain"
    assert answer["Content-Disposition"] == 'attachment; filename="report.txt"'
    assert answer["Content-Security-Policy"] == "sandbox"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Accept-Ranges"] == "bytes"


def test_the_etag_of_an_artifact_is_its_sha256(ada, path):
    etag = ada.get(path)["ETag"]

    again = ada.get(path, **{"If-None-Match": f'"other", {etag}'})

    assert etag == '"84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882"'
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", etag)


@pytest.mark.parametrize(
    ("range_", "part", "content_range"),
    [
        ("bytes=2-4", b"234", "bytes 2-4/10"),
        ("bytes=7-", b"789", "bytes 7-9/10"),
        ("bytes=-2", b"89", "bytes 8-9/10"),
        ("bytes=0-999", BODY, "bytes 0-9/10"),
    ],
)
def test_a_range_of_an_artifact(ada, path, range_, part, content_range):
    answer = ada.get(path, Range=range_)

    assert (answer.status_code, answer.content) == (206, part)
    assert (answer["Content-Range"], answer["Content-Length"]) == (content_range, str(len(part)))


def test_a_range_behind_the_end_is_a_problem_that_names_the_size(ada, path):
    answer = ada.get(path, Range="bytes=10-")

    assert problem(answer) == (416, "range_not_satisfiable")
    assert answer["Content-Range"] == "bytes */10"


@pytest.mark.parametrize("range_", ["bytes=4-2", "lines=1-2", "bytes=1-2,5-6", "x", "bytes=²-"])
def test_a_range_that_is_not_understood_is_ignored(ada, path, range_):
    answer = ada.get(path, Range=range_)

    assert (answer.status_code, answer.content) == (200, BODY)


def test_if_range_with_another_state_gives_everything(ada, path):
    answer = ada.get(path, Range="bytes=2-4", **{"If-Range": '"old"'})

    assert (answer.status_code, answer.content) == (200, BODY)


@pytest.mark.parametrize(
    ("media_type", "sent"),
    [
        ("text/html; charset=utf-8", "text/html; charset=utf-8"),
        ("text/html\r\nSet-Cookie: a=b", "application/octet-stream"),
        ("nonsense", "application/octet-stream"),
        ("", "application/octet-stream"),
    ],
)
def test_a_media_type_is_a_media_type(ada, media_type, sent):
    row = make_run(ada.workspace_id)
    make_artifact(row, BODY, media_type=media_type)

    answer = ada.get(f"executions/{row.run_id}/artifacts/check-report-raw")

    assert answer["Content-Type"] == sent


@pytest.mark.parametrize("name", ['a"b.txt', "ü.txt", "a\nb.txt", "../../etc/passwd", "dir/"])
def test_any_file_name_can_be_sent(ada, name):
    row = make_run(ada.workspace_id)
    make_artifact(row, BODY, path=name)

    answer = ada.get(f"executions/{row.run_id}/artifacts/check-report-raw")

    assert answer.status_code == 200
    assert answer["Content-Disposition"].startswith("attachment; filename")
    assert "/" not in answer["Content-Disposition"]


def test_junit_has_one_testsuite_a_step(ada):
    row = make_run(ada.workspace_id, statuses=["healthy", "failed", "skipped"])
    Step.objects.filter(execution=row, step_id="seed").update(
        attempt=2, reason="exit_nonzero", detail="exit code 3"
    )
    cases = b'<testcase name="a" time="1"/><testcase name="b"><failure/></testcase>'
    report = b"<testsuite>" + cases + b"</testsuite>"
    make_artifact(row, report, step_id="check", attempt=0, format="junit")
    make_artifact(row, b"<testsuite/", artifact_id="x", step_id="db", attempt=0, format="junit")
    make_artifact(row, report, artifact_id="y", step_id="seed", attempt=1, format="junit")

    answer = ada.get(f"executions/{row.run_id}/junit")

    assert answer["Content-Type"] == "application/xml"
    seed, check = ET.fromstring(answer.content)  # and no service, which tests nothing
    assert [one.get("name") for one in (seed, check)] == ["seed", "check"]
    failure = seed.find("testcase/failure")
    assert failure is not None
    assert failure.attrib == {"message": "seed exited with code 3", "type": "exit_nonzero"}
    assert (check.get("tests"), check.get("failures")) == ("2", "1")


def test_junit_has_the_tests_and_no_tasks(ada):
    row = make_run(ada.workspace_id, statuses=["healthy", "healthy", "healthy"])
    cases = b"<testsuite><testcase name='a'/><testcase name='b'/></testsuite>"
    make_artifact(row, cases, step_id="check", attempt=0, format="junit")

    document = ET.fromstring(ada.get(f"executions/{row.run_id}/junit").content)

    assert [suite.get("name") for suite in document] == ["check"]
    assert document.get("tests") == "2"


def test_a_step_that_never_ran_took_no_time(ada):
    """Invariant 2: not even none at all."""
    row = make_run(ada.workspace_id, statuses=["healthy", "failed", "skipped"])
    ended = clock.now()
    Step.objects.filter(execution=row, step_id="db").update(
        started_at=ended - timedelta(seconds=2), finished_at=ended, kind="test"
    )
    Step.objects.filter(execution=row).exclude(step_id="db").update(
        started_at=None, finished_at=ended
    )

    Step.objects.filter(execution=row).update(kind="test")

    db, *others = ET.fromstring(ada.get(f"executions/{row.run_id}/junit").content)

    assert [case.get("time") for case in db.iter("testcase")] == ["2.000"]
    cases = [case for suite in others for case in suite.iter("testcase")]
    assert [case.get("time") for case in cases] == [None, None]
