"""`utils`: texts for shells, SQL and JavaScript (reference: control-plane 7.5)."""

from __future__ import annotations

import subprocess

import pytest

from apps.suites.domain.problems import TopologyProblem
from apps.suites.domain.text_functions import (
    js_value,
    quote_shell,
    sanitize,
    sql_predicate,
    sql_value,
)


def test_sanitize_makes_a_slug():
    assert sanitize("Pay / API!") == "pay-api"


@pytest.mark.parametrize("text", ["", "a b", "it's", '$HOME `x` \\ "', "'''", "a\nb"])
def test_a_shell_reads_back_what_was_quoted(text):
    echoed = subprocess.run(
        ["sh", "-c", f"printf %s {quote_shell(text)}"], capture_output=True, check=True, text=True
    )

    assert echoed.stdout == text


@pytest.mark.parametrize(
    ("value", "sql"),
    [(None, "NULL"), (True, "TRUE"), (False, "FALSE"), (7, "7"), (1.5, "1.5"), ("it's", "'it''s'")],
)
def test_sql_values(value, sql):
    assert sql_value(value) == sql


@pytest.mark.parametrize(
    ("where", "sql"),
    [
        ("a = 1 OR b", "a = 1 OR b"),
        ({"a": 1}, '"a" = 1'),
        ({"a": None, "t.b": ["x", 2]}, '"a" IS NULL AND "t.b" IN (\'x\', 2)'),
    ],
)
def test_sql_predicates(where, sql):
    assert sql_predicate(where) == sql


@pytest.mark.parametrize("where", [{'a"': 1}, {"": 1}, {"a;b": 1}, {"1a": 1}])
def test_a_column_that_is_no_name_is_refused(where):
    with pytest.raises(TopologyProblem, match="not a column name"):
        sql_predicate(where)


def test_js_values_are_json_in_the_order_given():
    assert (
        js_value({"b": [1, 2.5, True, None], "a": 'é"'})
        == '{"b": [1, 2.5, true, null], "a": "é\\""}'
    )


@pytest.mark.parametrize(
    ("function", "value"),
    [(sql_value, []), (sql_predicate, 3), (js_value, object()), (quote_shell, 1), (sanitize, None)],
)
def test_other_types_are_refused(function, value):
    with pytest.raises(TopologyProblem) as caught:
        function(value)

    assert caught.value.code == "wrong_type"
