"""Test reports of steps: JUnit XML and CTRF JSON read into cases, cases written as JUnit XML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NotRequired, TypedDict
from xml.etree import ElementTree as ET

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

Outcome = Literal["passed", "failure", "error", "skipped"]
REPORT_FORMATS: Final = ("junit", "ctrf")
_CTRF_OUTCOMES: Final[dict[str, Outcome]] = {"passed": "passed", "failed": "failure"}
_CTRF_COUNTS: Final = ("tests", "passed", "failed", "skipped", "pending", "other")
_MOST_TESTS: Final = 2**53  # what a JSON number keeps exactly
_LATEST_MS: Final = 10**15
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class ReportUnreadable(ValueError):
    """The bytes are no report of that format; the message says why, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One test; `seconds` is None where the report names no time."""

    name: str
    classname: str = ""
    outcome: Outcome = "passed"
    seconds: float | None = None
    message: str = ""
    kind: str = ""  # what a JUnit failure calls its `type`
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteOfStep:
    """What becomes one `testsuite`: a step's name and its cases."""

    name: str
    cases: tuple[Case, ...]
    started_at: str = ""  # RFC 3339, empty when the step never started
    output: str = ""


class TestSummaryBody(TypedDict):
    """The counts of a report, as on the wire."""

    total: int
    passed: int
    failures: int
    errors: int
    skipped: int
    durationSeconds: NotRequired[float]


def read_cases(format_: str, body: bytes) -> tuple[Case, ...]:
    """The cases of a `junit` or `ctrf` report. Raises ReportUnreadable.

    XML with a DTD or entities is refused. JUnit files are read at any nesting of
    `testsuites` and `testsuite`.
    """
    return tuple(_ctrf_cases(body) if format_ == "ctrf" else _junit_cases(body))


def read_summary(format_: str, body: bytes) -> TestSummaryBody:
    """Return `testSummary` as on the wire. Raises ReportUnreadable.

    JUnit is counted from its cases. CTRF counts itself in `results.summary`, as the list of its
    tests may be short or missing; without a summary, and for more failures, the list counts.
    """
    counted = _count_cases(read_cases(format_, body))
    own = _ctrf_results(body).get("summary") if format_ == "ctrf" else None
    if own is None:
        return counted
    return _ctrf_summary(own, listed_failures=counted["failures"])


def as_junit(
    title: str, suites: Sequence[SuiteOfStep], properties: Mapping[str, str] | None = None
) -> bytes:
    """A `testsuites` document with one `testsuite` per entry, counted from the cases.

    Each `testsuite` has the properties: the schema of JUnit has none for all of them.
    """
    root = ET.Element("testsuites", _counts([case for suite in suites for case in suite.cases]))
    root.set("name", _clean(title))
    for suite in suites:
        element = ET.SubElement(root, "testsuite", _counts(suite.cases))
        element.set("name", _clean(suite.name))
        if suite.started_at:
            element.set("timestamp", suite.started_at)
        if properties:
            _write_properties(element, properties)
        for case in suite.cases:
            _write_case(element, case)
        if suite.output:
            ET.SubElement(element, "system-out").text = _clean(suite.output)
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document


def _write_properties(parent: ET.Element, properties: Mapping[str, str]) -> None:
    element = ET.SubElement(parent, "properties")
    for name, value in properties.items():
        ET.SubElement(element, "property", {"name": name, "value": _clean(value)})


def _junit_cases(body: bytes) -> Iterator[Case]:
    try:
        root = fromstring(body, forbid_dtd=True)
    except (ET.ParseError, DefusedXmlException, ValueError, LookupError) as error:
        raise ReportUnreadable(f"invalid XML: {error}") from None
    if _local(root) not in ("testsuites", "testsuite"):
        raise ReportUnreadable(f"the root element is {_local(root)!r}, not testsuites or testsuite")
    return (_junit_case(element) for element in root.iter() if _local(element) == "testcase")


def _junit_case(element: ET.Element) -> Case:
    found = {_local(child): child for child in element}
    outcome: Outcome = "passed"
    mark: ET.Element | None = None
    for name in ("error", "failure", "skipped"):
        if name in found:
            outcome, mark = name, found[name]
            break
    return Case(
        name=element.get("name", ""),
        classname=element.get("classname", ""),
        outcome=outcome,
        seconds=_seconds(element.get("time")),
        message="" if mark is None else mark.get("message", ""),
        kind="" if mark is None else mark.get("type", ""),
        text="" if mark is None else (mark.text or "").strip(),
    )


def _count_cases(cases: Sequence[Case]) -> TestSummaryBody:
    outcomes = [case.outcome for case in cases]
    seconds = [case.seconds for case in cases if case.seconds is not None]
    summary: TestSummaryBody = {
        "total": len(cases),
        "passed": outcomes.count("passed"),
        "failures": outcomes.count("failure"),
        "errors": outcomes.count("error"),
        "skipped": outcomes.count("skipped"),
    }
    if seconds:
        summary["durationSeconds"] = round(sum(seconds), 3)
    return summary


def _ctrf_results(body: bytes) -> Mapping[str, Any]:
    try:
        results = json.loads(body)["results"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ReportUnreadable(f"invalid CTRF: {error!r}") from None
    if not isinstance(results, Mapping) or not results.keys() & {"tests", "summary"}:
        raise ReportUnreadable("invalid CTRF: results has neither tests nor summary")
    return results


def _ctrf_cases(body: bytes) -> Iterator[Case]:
    tests = _ctrf_results(body).get("tests", [])
    if not isinstance(tests, list):
        raise ReportUnreadable("invalid CTRF: results.tests is not a list")
    return (_ctrf_case(test) for test in tests if isinstance(test, Mapping))


def _ctrf_summary(own: object, *, listed_failures: int) -> TestSummaryBody:
    if not isinstance(own, Mapping):
        raise ReportUnreadable("invalid CTRF: results.summary is not an object")
    counts = {name: _count(own, name) for name in _CTRF_COUNTS}
    summary: TestSummaryBody = {
        "total": counts["tests"],
        "passed": counts["passed"],
        "failures": max(counts["failed"], listed_failures),
        "errors": 0,  # the format knows none
        "skipped": counts["skipped"] + counts["pending"] + counts["other"],
    }
    start, stop = _ctrf_seconds(own.get("start")), _ctrf_seconds(own.get("stop"))
    if start is not None and stop is not None and stop >= start:
        summary["durationSeconds"] = round(stop - start, 3)
    return summary


def _count(own: Mapping[str, Any], name: str) -> int:
    value = own.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_TESTS:
        raise ReportUnreadable(f"invalid CTRF: results.summary.{name} is not a count")
    return value


def _ctrf_seconds(milliseconds: object) -> float | None:
    """None for what is not a time: Python's JSON has NaN, infinity and endless integers."""
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        return None
    return milliseconds / 1000 if 0 <= milliseconds < _LATEST_MS else None


def _ctrf_case(test: Mapping[str, Any]) -> Case:
    suite = test.get("suite")
    return Case(
        name=str(test.get("name", "")),
        classname=suite if isinstance(suite, str) else "",
        outcome=_CTRF_OUTCOMES.get(str(test.get("status")), "skipped"),
        seconds=_ctrf_seconds(test.get("duration")),
        message=str(test.get("message") or ""),
        text=str(test.get("trace") or ""),
    )


def _seconds(text: str | None) -> float | None:
    try:
        seconds = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _counts(cases: Sequence[Case]) -> dict[str, str]:
    outcomes = [case.outcome for case in cases]
    return {
        "tests": str(len(cases)),
        "failures": str(outcomes.count("failure")),
        "errors": str(outcomes.count("error")),
        "skipped": str(outcomes.count("skipped")),
        "time": f"{sum(case.seconds or 0 for case in cases):.3f}",
    }


def _write_case(parent: ET.Element, case: Case) -> None:
    element = ET.SubElement(parent, "testcase", {"name": _clean(case.name)})
    if case.classname:
        element.set("classname", _clean(case.classname))
    if case.seconds is not None:
        element.set("time", f"{case.seconds:.3f}")
    if case.outcome == "passed":
        return
    mark = ET.SubElement(element, case.outcome)
    for name, value in (("message", case.message), ("type", case.kind)):
        if value:
            mark.set(name, _clean(value))
    mark.text = _clean(case.text) or None


def _clean(text: str) -> str:
    """Replace the characters that XML 1.0 cannot hold."""
    return _NOT_XML.sub("\ufffd", text)


def _local(element: ET.Element) -> str:
    return str(element.tag).rpartition("}")[2]  # of a comment it is a function
