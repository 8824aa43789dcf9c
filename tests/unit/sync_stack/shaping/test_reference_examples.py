"""The table of examples, and what its sentences say besides (reference: sync-stack 4.5)."""

from __future__ import annotations

from typing import Any

import pytest

from sync_stack.core.bundle.rules import EnvSlice, KeyFormat, Variable, VariableForm
from sync_stack.core.file_errors import ShapingError
from tests.unit.sync_stack.shaping.shaping import rules, shaped, source

RENAMES = {"DB_HOST": Variable(text="database.host"), "REGION": Variable(text="eu")}


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        (
            "app.yaml",
            "default: {db: {host: a, port: 1}}\nproduction: {db: {host: p}}",
            "db.host=p db.port=1",
        ),
        ("app.yaml", "name: x\nstaging: {k: 1}\nproduction: {k: 2}", "k=2 name=x"),
        (
            "app.yaml",
            "timeout: {default: 30, production: 60}\nlog: {default: info, file: f}",
            "log.default=info log.file=f timeout=60",
        ),
        ("app.yaml", "DATABASES: {default: {HOST: h}}", "DATABASES.default.HOST=h"),
        ("app.yaml", "partita: {a: [1, {b: null}]}\nother: 1", "a.0=1 a.1.b="),
        ("app.toml", "v = 1.10\n[s]\non = true", "s.on=true v=1.10"),
        ("app.xml", '<cfg><db host="h">x</db></cfg>', "cfg.db.#text=x cfg.db.@attrs.host=h"),
    ],
)
def test_the_examples_of_the_reference(file: str, text: str, expected: str) -> None:
    assert line(shaped(text, file=file).values) == expected


def test_the_example_of_variables_map() -> None:
    made = shaped("database: {host: h}", variables_map=RENAMES)

    assert line(made.values) == "DB_HOST=h REGION=eu"


def line(values: dict[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in values.items())


@pytest.mark.parametrize(
    ("root_key", "text", "expected"),
    [
        (None, "partita: {a: 1}\nb: 2", {"a": "1"}),
        (None, "a: 1", {"a": "1"}),
        ("", "partita: {a: 1}\nb: 2", {"partita.a": "1", "b": "2"}),
        ("app", "app: {a: 1}\nb: 2", {"a": "1"}),
        ("app.web", "app: {web: {a: 1}}", {"a": "1"}),
        ("app.web", "app.web: {a: 1}\napp: {web: {a: 2}}", {"a": "1"}),
        (None, "partita:\nb: 2", {}),
    ],
)
def test_the_root_key_takes_a_subtree(
    root_key: str | None, text: str, expected: dict[str, str]
) -> None:
    assert shaped(text, root_key=root_key).values == expected


def test_a_root_key_that_is_set_and_absent_is_an_error() -> None:
    assert refused("a: 1", root_key="app").code == "root_key_missing"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("production: {a: 1}\nstaging: {a: 2}", {"a": "1"}),
        ("default: {l: [1, 2], m: {x: 1}}\nproduction: {l: [3]}", {"l.0": "3", "m.x": "1"}),
        ("a: 1\ndefault: {a: 2}\nproduction: {a: 3}", {"a": "3"}),
        ("a: 1\nstaging: {b: 2}", {"a": "1"}),
        ("default: {a: 1}\nstaging: {a: 2}", {"a": "1"}),
        ("default: {m: {x: 1}}\nproduction: {m: 5}", {"m": "5"}),
    ],
)
def test_a_file_of_environment_blocks_gives_scalars_default_and_current(
    text: str, expected: dict[str, str]
) -> None:
    assert shaped(text).values == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: {b: {staging: 1, production: 2}, c: 3}", {"a.b": "2", "a.c": "3"}),
        ("a: {b: {default: 1, staging: 2}}", {"a.b": "1"}),
        ("a: {production: {x: {default: 1, production: 2}}}", {"a.x": "2"}),
        ("l: [{default: 1, production: 2}, x]", {"l.0": "2", "l.1": "x"}),
        ("a: {staging: 1}", {"a.staging": "1"}),
        ("a: {default: 1}", {"a.default": "1"}),
        ("a: {production: 1, other: 2}", {"a.production": "1", "a.other": "2"}),
        ("default: [1]\nproduction: [2]", {"0": "2"}),
    ],
)
def test_maps_of_environments_inside_a_file_become_one_value(
    text: str, expected: dict[str, str]
) -> None:
    """Sync invariant 20."""
    assert shaped(text).values == expected


def test_a_map_of_other_environments_only_is_left_out_with_a_warning() -> None:
    made = shaped("x: 1\na:\n  b: {staging: 1, review: 2}", environments={"staging", "review"})

    assert made.values == {"x": "1"}
    assert [(warning.path, warning.line) for warning in made.warnings] == [("a.b", 3)]


@pytest.mark.parametrize("text", ["staging: {a: 1}\nreview: {a: 2}", "staging: [1]\nreview: [2]"])
def test_a_file_of_other_environments_only_has_nothing_for_this_one(text: str) -> None:
    made = shaped(text, environments={"staging", "review"})

    assert made.env_not_in_file
    assert made.values == {}


def test_the_slice_knows_the_environments_of_the_rule_and_no_others() -> None:
    made = shaped("blue: {a: 1}\nproduction: {a: 2}")

    assert made.values == {"blue.a": "1", "production.a": "2"}


def test_default_as_the_environment_takes_the_default_block() -> None:
    made = shaped("a: {default: 1, staging: 2}\nb: {default: 3}", environment="default")

    assert made.values == {"a": "1", "b.default": "3"}


def test_without_slicing_the_file_stays_whole() -> None:
    made = shaped("production: {a: 1}\nstaging: {a: 2}", env_slice=EnvSlice.OFF)

    assert made.values == {"production.a": "1", "staging.a": "2"}


def test_a_value_without_a_key_is_refused() -> None:
    assert refused("just text").code == "key_invalid"
    assert refused("default: a\nproduction: b").code == "key_invalid"


def test_an_empty_file_has_no_keys() -> None:
    assert shaped("").values == {}
    assert shaped("# nothing\n").values == {}


def test_empty_maps_and_lists_vanish_and_null_is_an_empty_text() -> None:
    made = shaped("a: {}\nb: []\nc: null\nd: ''\ne: {f: {}}\ng: ~\nh: True")

    assert made.values == {"c": "", "d": "", "g": "", "h": "true"}


def test_renames_of_variables_map_happen_at_once() -> None:
    swap = {"a": Variable(text="b"), "b": Variable(text="a")}

    assert shaped("a: 1\nb: 2", variables_map=swap).values == {"a": "2", "b": "1"}


def test_the_forms_of_variables_map() -> None:
    variables = {
        "HOST": Variable(text="db.host", form=VariableForm.FROM),
        "WORD": Variable(text="db.port", form=VariableForm.LITERAL),
        "FREE": Variable(text="db.none"),
    }
    made = shaped("db: {host: h, port: 1}", variables_map=variables)

    assert made.values == {"FREE": "db.none", "HOST": "h", "WORD": "db.port", "db.port": "1"}


def test_renaming_a_key_that_no_file_has_is_an_error() -> None:
    variables = {"A": Variable(text="nope", form=VariableForm.FROM)}

    assert "nope" in refused("a: 1", variables_map=variables).detail


def test_a_literal_never_overwrites_a_key_of_the_file() -> None:
    """Sync invariant 20."""
    error = refused("A: 1", variables_map={"A": Variable(text="x")})

    assert (error.code, "app.yaml:1:4" in error.detail) == ("key_conflict", True)


@pytest.mark.parametrize(
    ("text", "key_format"),
    [
        ("a.b: 1\na: {b: 2}", KeyFormat.DOT),
        ("a_b: 1\na: {b: 2}", KeyFormat.FLAT),
        ("a: [1]\na.0: 2", KeyFormat.DOT),
    ],
)
def test_two_values_for_one_key_are_refused_with_both_places(
    text: str, key_format: KeyFormat
) -> None:
    """Sync invariant 20."""
    error = refused(text, key_format=key_format)

    assert error.code == "key_conflict"
    assert (error.line, "app.yaml:1:" in error.detail) == (2, True)


def test_two_files_of_a_unit_never_share_a_key() -> None:
    """Sync invariant 20."""
    files = [source("x: 1\na: 1", file="one.yaml"), source("b: 1\n\na: 2", file="two.yaml")]
    with pytest.raises(ShapingError) as raised:
        rules().shape(files)

    assert str(raised.value).startswith("two.yaml:3:4: ")
    assert "one.yaml:2:4" in raised.value.detail


def test_files_of_a_unit_are_shaped_together() -> None:
    files = [source("b: {x: 1}", file="one.yaml"), source('{"a": 1.0}', file="two.json")]
    made = rules(key_format=KeyFormat.FLAT).shape(files)

    assert list(made.values.items()) == [("a", "1.0"), ("b_x", "1")]
    assert (made.keys["a"].file, made.keys["a"].line) == ("two.json", 1)
    assert [(file.file, file.keys) for file in made.files] == [("one.yaml", 1), ("two.json", 1)]


def test_keys_are_in_the_order_of_their_bytes() -> None:
    made = shaped("{é: 1, z: 2, Z: 3, a.b: 4, a-b: 5, 😀: 6, \ufb00: 7}")

    assert [*made.values] == sorted(made.values, key=str.encode)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"{'k' * 513}: 1", "key_invalid"),
        (f"a: {'v' * (256 * 1024 + 1)}", "key_invalid"),
        ('"a\\nb": 1', "key_invalid"),
        ('"a\\rHost: x": 1', "key_invalid"),
        ('"../../etc/passwd": 1', "key_invalid"),
        ('"": 1', "key_invalid"),
    ],
)
def test_keys_and_values_beyond_the_limits_are_refused(text: str, code: str) -> None:
    """Sync invariant 29."""
    error = refused(text)

    assert (error.code, error.file, error.line) == (code, "app.yaml", 1)


def test_the_limits_themselves_are_allowed() -> None:
    made = shaped(f"{'k' * 512}: {'v' * (256 * 1024)}")

    assert len(made.values) == 1


@pytest.mark.slow
def test_more_than_fifty_thousand_keys_are_refused() -> None:
    text = "\n".join(f"k{number}: 1" for number in range(50_001))
    error = refused(text)

    assert (error.code, error.line) == ("too_many_keys", 50_001)


@pytest.mark.slow
def test_fifty_thousand_keys_of_several_files_count_together() -> None:
    files = [
        source("\n".join(f"{name}{number} = 1" for number in range(25_001)), file=f"{name}.toml")
        for name in "ab"
    ]
    with pytest.raises(ShapingError, match="more than 50000 keys"):
        rules().shape(files)


def refused(text: str, **fields: Any) -> ShapingError:
    with pytest.raises(ShapingError) as raised:
        shaped(text, **fields)
    return raised.value
