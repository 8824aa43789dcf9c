from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from apps.executions.domain.junit import Case, ReportUnreadable, SuiteOfStep, as_junit, read_cases

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
