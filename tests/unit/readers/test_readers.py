"""Text from outside is bounded before it is believed."""

from __future__ import annotations

import math
import time

import pytest

from readers import Unreadable
from readers.json import read_json
from readers.yaml import read_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("NO", "NO"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("012", 12),
        ("0o14", 12),
        ("0x1F", 31),
        ("1.10", 1.1),
        ("-.inf", -math.inf),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("2026-01-02", "2026-01-02"),
        ('"1"', "1"),
        ("!!str 1", "1"),
        ("<<", "<<"),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(text, value):
    assert read_yaml(text).data() == value


def test_a_scalar_keeps_its_source_text():
    env = read_yaml("env: {A: yes, B: 1.10, C: 0x1F, D: null}").get("env")

    assert env
    assert {key.text: value.text for key, value in env.pairs or []} == {
        "A": "yes",
        "B": "1.10",
        "C": "0x1F",
        "D": "null",
    }


@pytest.mark.parametrize(
    ("text", "reason", "line", "column"),
    [
        ("a: 1\nb: 2\na: 3", 'the key "a" occurs twice', 3, 1),
        ("[" * 65 + "]" * 65, "nested more than 64 deep", 1, 65),
        ("a: &x [*x]", "an anchor holds itself", 1, 4),
        ("a: *nowhere", "unknown alias *nowhere", 1, 4),
        ("a: !!python/object:os.system x", "is not allowed", 1, 4),
        ("a: !!int x", "'x' is not a valid int", 1, 4),
        ("a: 1\n---\nb: 2", "only one document", 2, 1),
        ("? [a]\n: 1", "a key must be a single value", 1, 3),
        ("a: [1, 2", "did not find expected", 2, 1),
        ("a: " + "9" * 5000, "digits", 1, 4),
        ("a:\n  - [x, " + "9" * 5000 + "]", "digits", 2, 9),
        ("a: {b: [{c: !!bool 1}]}", "'1' is not a valid bool", 1, 13),
        ("a: &x 1\nb: !!int x", "'x' is not a valid int", 2, 4),
    ],
)
def test_broken_yaml_is_refused_with_its_place(text, reason, line, column):
    with pytest.raises(Unreadable, match=reason.replace("*", r"\*")) as caught:
        read_yaml(text)

    assert (caught.value.line, caught.value.column) == (line, column)


def test_aliases_that_multiply_are_refused_at_once():
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    began = time.process_time()

    with pytest.raises(Unreadable, match="10000 alias expansions"):
        read_yaml("\n".join(["a0: &a0 [x, x]", *levels]))

    assert time.process_time() - began < 1


def test_ten_thousand_expansions_are_allowed():
    document = read_yaml("base: &b x\nall: [" + ", ".join(["*b"] * 9999) + "]")

    assert len(document.data()["all"]) == 9999


def test_few_aliases_to_a_large_value_are_refused_when_they_would_be_huge():
    large = "[" + ", ".join(["x"] * 1000) + "]"

    with pytest.raises(Unreadable, match="values once aliases are written out"):
        read_yaml(f"a: &a {large}\nb: [" + ", ".join(["*a"] * 2000) + "]")


@pytest.mark.slow
def test_a_mapping_of_very_many_keys_is_read_quickly():
    began = time.process_time()

    assert len(read_yaml("\n".join(f"k{n}: 1" for n in range(50_000))).data()) == 50_000
    assert time.process_time() - began < 10


def test_json_is_read():
    assert read_json('{"a": [1, 2.5, null, "é"]}'.encode()) == {"a": [1, 2.5, None, "é"]}


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"\xff", "not UTF-8 at byte 0"),
        (b'{"a": 1, "a": 2}', 'the key "a" occurs twice'),
        (b"[" * 65 + b"]" * 65, "nested more than 64 deep"),
        (b"[" * 1_000_000, "nested more than 64 deep"),
        (b'"\\u0000"', "NUL"),
        (b'{"\\ud800": 1}', "surrogate"),
        (b"NaN", "NaN is not JSON"),
        (b"[1e400, Infinity]", "Infinity is not JSON"),
        (b"1" * 5000, "digit"),
        (b"{", "Expecting"),
        (b"", "Expecting"),
    ],
)
def test_broken_json_is_refused(raw, reason):
    with pytest.raises(Unreadable, match=reason):
        read_json(raw)


def test_brackets_inside_json_strings_nest_nothing():
    assert read_json(b'["' + b"[" * 100 + b'\\""]') == ["[" * 100 + '"']


def test_json_beyond_its_size_is_refused():
    with pytest.raises(Unreadable, match="larger than 10 bytes"):
        read_json(b'"0123456789"', max_bytes=10)


@pytest.mark.parametrize("begin", [b'"', b'examples: "', b""])
def test_a_string_without_an_end_costs_no_more_than_its_length(begin):
    before = time.process_time()

    with pytest.raises(Unreadable):
        read_json(begin + b'\\"' * 50_000)

    assert time.process_time() - before < 1
