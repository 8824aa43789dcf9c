from __future__ import annotations

import time

import pytest

from apps.executions.domain.events import LineRecord
from apps.executions.selectors.logs import LineFilter, SearchPatternInvalid, compile_pattern

LINE = LineRecord(
    source="api",
    timestamp="00:01",
    time="2026-01-02T03:04:05.000Z",
    level="info",
    kind="output",
    text="GET /pets 200",
)


def found(query, line=LINE, *, regex=False, case=False, **facts):
    pattern = compile_pattern(query, regex=regex, case=case)
    return LineFilter(pattern=pattern, **facts).find(line)


def test_a_query_is_literal_and_ignores_case_unless_told():
    assert found("get /PETS")
    assert not found("get /PETS", case=True)
    assert not found("G.T")
    assert found("G.T .*20[0-9]", regex=True)


def test_facts_narrow_a_search():
    assert found("pets", sources=frozenset({"api"}), kinds=frozenset({"output"}))
    assert not found("pets", sources=frozenset({"db"}))
    assert not found("pets", levels=frozenset({"warn", "error"}))


@pytest.mark.parametrize("query", ["(", r"(a)\1", "(?=a)", "a{1000}{1000}", "[z-a]", "*", "(?P<"])
def test_what_re2_refuses_is_a_named_fact(query):
    with pytest.raises(SearchPatternInvalid):
        compile_pattern(query, regex=True, case=True)


@pytest.mark.parametrize("query", ["(a+)+$", "(a|aa)*$", "(.*)*x", "(a|a|a)*b", "(a*)*(a*)*c"])
def test_a_hostile_pattern_takes_linear_time(query):
    """Invariant 27: a back-tracking engine needs years for these."""
    pattern = compile_pattern(query, regex=True, case=True)
    text = "a" * 16_384 + "!"

    began = time.process_time()
    for _ in range(20):
        pattern.search(text)

    assert time.process_time() - began < 2
