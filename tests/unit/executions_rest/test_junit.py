from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from apps.executions.domain.junit import (
    Case,
    ReportUnreadable,
    SuiteOfStep,
    as_junit,
    read_cases,
    read_summary,
)

JUNIT = b"""<testsuites><testsuite name="outer"><testsuite name="inner">
<testcase name="adds" classname="sums" time="0.5"/>
<testcase name="breaks"><failure message="no" type="Assert">at line 3</failure></testcase>
<testcase name="explodes"><error message="boom"/></testcase>
<testcase name="waits"><skipped/></testcase>
</testsuite></testsuite></testsuites>"""


def test_a_junit_report_is_read_at_any_nesting():
    cases = read_cases("junit", JUNIT)

    assert [case.outcome for case in cases] == ["passed", "failure", "error", "skipped"]
    assert cases[0] == Case(name="adds", classname="sums", seconds=0.5)
    assert (cases[1].message, cases[1].kind, cases[1].text) == ("no", "Assert", "at line 3")


def test_a_ctrf_report_is_read_in_seconds():
    body = b'{"results":{"tests":[{"name":"a","status":"failed","duration":1500,"message":"no"}]}}'

    (case,) = read_cases("ctrf", body)

    assert (case.outcome, case.seconds, case.message) == ("failure", 1.5, "no")


@pytest.mark.parametrize(
    ("format_", "body"),
    [
        ("junit", b"<testsuites"),
        ("junit", b"<html/>"),
        ("junit", b"\xff\xfe\x00"),
        ("junit", b'<?xml version="1.0" encoding="nope"?><testsuite/>'),
        ("junit", b'<!DOCTYPE a [<!ENTITY b "c">]><testsuite><testcase name="&b;"/></testsuite>'),
        ("ctrf", b"{}"),
        ("ctrf", b"[" * 100_000),
        ("ctrf", b'{"results":{"tests":3}}'),
        ("ctrf", b'{"results":{"tool":{}}}'),
    ],
)
def test_an_unreadable_report_is_a_named_fact(format_, body):
    with pytest.raises(ReportUnreadable):
        read_cases(format_, body)


def test_cases_are_written_as_one_testsuite_a_step_and_counted():
    suites = [
        SuiteOfStep(name="unit", cases=read_cases("junit", JUNIT), started_at="2026-01-02T03:04Z"),
        SuiteOfStep(
            name="load\x00", cases=(Case(name="load", outcome="failure", text="\x1b[31m"),)
        ),
    ]

    root = ET.fromstring(as_junit("shop", suites))

    first, second = root
    assert root.attrib["tests"] == "5"
    assert (first.get("name"), first.get("failures"), first.get("skipped")) == ("unit", "1", "1")
    assert first.get("time") == "0.500"
    assert second.get("name") == "load\ufffd"
    assert second[0][0].text == "\ufffd[31m"


@pytest.mark.parametrize(
    ("time", "seconds"), [("1,234.5", 1234.5), ("-1", None), ("inf", None), ("soon", None)]
)
def test_a_time_that_is_none_is_not_invented(time, seconds):
    """Invariant 2."""
    (case,) = read_cases("junit", f'<testsuite><testcase time="{time}"/></testsuite>'.encode())

    assert case.seconds == seconds


def test_ctrf_entries_that_are_no_tests_are_passed_over():
    body = b'{"results":{"tests":[3,{"name":"a","status":"pending","suite":["x"]}]}}'

    (case,) = read_cases("ctrf", body)

    assert (case.outcome, case.seconds, case.classname) == ("skipped", None, "")


def test_comments_in_a_report_are_no_cases():
    assert read_cases("junit", b"<testsuite><!-- testcase --><properties/></testsuite>") == ()


OWN = (
    b'{"tests":9,"passed":4,"failed":2,"pending":1,"skipped":1,"other":1,"start":1000,"stop":3500}'
)
COUNTED = {
    "total": 9,
    "passed": 4,
    "failures": 2,
    "errors": 0,
    "skipped": 3,
    "durationSeconds": 2.5,
}


@pytest.mark.parametrize(
    "tests", [b"", b',"tests":[]', b',"tests":[{"name":"a","status":"passed"}]']
)
def test_a_ctrf_report_is_counted_by_its_summary_however_short_its_list_is(tests: bytes):
    """Invariant 1."""
    assert read_summary("ctrf", b'{"results":{"summary":' + OWN + tests + b"}}") == COUNTED


def test_a_ctrf_report_without_a_summary_is_counted_by_its_tests():
    body = b'{"results":{"tests":[{"name":"a","status":"failed"},{"name":"b","status":"passed"}]}}'

    found = read_summary("ctrf", body)

    assert found == {"total": 2, "passed": 1, "failures": 1, "errors": 0, "skipped": 0}


def test_a_failed_test_counts_whatever_the_summary_says():
    """Invariant 1."""
    body = (
        b'{"results":{"summary":{"tests":1,"passed":1},"tests":[{"name":"a","status":"failed"}]}}'
    )

    assert read_summary("ctrf", body)["failures"] == 1


@pytest.mark.parametrize(
    "failed", [b'"2"', b"-1", b"true", b"1.5", b"NaN", b"null", b"1" + b"0" * 400]
)
def test_a_ctrf_summary_of_other_things_than_counts_is_unreadable(failed: bytes):
    """Invariant 33."""
    with pytest.raises(ReportUnreadable, match="failed"):
        read_summary("ctrf", b'{"results":{"summary":{"failed":' + failed + b"}}}")


@pytest.mark.parametrize("time", [b"NaN", b"Infinity", b"-5", b"true", b"1" + b"0" * 400])
def test_a_ctrf_time_that_is_none_is_not_invented(time: bytes):
    """Invariants 2 and 33."""
    body = b'{"results":{"tests":[{"name":"a","status":"passed","duration":' + time + b"}]}}"

    assert "durationSeconds" not in read_summary("ctrf", body)
