"""Schemas of files: found by name, checked without values in messages, keys marked."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from sync_stack.core.file_errors import ShapingError
from sync_stack.core.shaping.model import Shaped
from sync_stack.core.shaping.schema import Schema, find_schema
from sync_stack.core.shaping.secrets import SecretRules
from tests.unit.sync_stack.shaping.shaping import shaped

VAULT = SecretRules(manager="vault", prefix="apps/shop")


@pytest.mark.parametrize(
    ("available", "expected"),
    [
        ({"app.yaml.schema.json", "app.schema.json"}, "app.yaml.schema.json"),
        ({"app.schema.json", "app.cue", "default.cue"}, "app.schema.json"),
        ({"app.cue", "default.schema.json"}, "app.cue"),
        ({"default.schema.json", "default.cue"}, "default.schema.json"),
        ({"default.cue"}, "default.cue"),
        ({"other.schema.json"}, None),
    ],
)
def test_the_schema_is_found_by_the_name_of_the_file(
    available: set[str], expected: str | None
) -> None:
    assert find_schema("config/app.yaml", available) == expected


def test_the_central_file_name_counts_when_the_repository_names_another() -> None:
    """Sync invariant 30."""
    available = {"app.schema.json", "loose.schema.json"}

    assert find_schema("loose.yaml", available, central_file="conf/app.yaml") == "app.schema.json"


def test_a_file_of_its_schema_is_ok() -> None:
    made = checked("port: 80", {"properties": {"port": {"type": "integer"}}})

    assert (made.files[0].validation, made.warnings) == ("ok", ())


def test_what_breaks_the_schema_is_refused_when_strict_with_path_and_line() -> None:
    """Sync invariant 18."""
    schema = {"properties": {"db": {"properties": {"port": {"type": "integer"}}}}}
    with pytest.raises(ShapingError) as raised:
        checked("a: 1\ndb:\n  port: hunter2", schema, strict_validation=True)

    assert str(raised.value) == ('app.yaml:3:9: db.port: breaks type "integer" [schema_invalid]')


def test_what_breaks_the_schema_is_a_warning_otherwise() -> None:
    schema = {"properties": {"p": {"maximum": 5}}, "required": ["q"], "additionalProperties": False}
    made = checked("p: 7\nsecret_word: hunter2", schema)

    assert made.files[0].validation == "warn"
    assert made.values == {"p": "7", "secret_word": "hunter2"}
    assert [(warning.path, warning.line, warning.message) for warning in made.warnings] == [
        ("", 1, 'lacks "q"'),
        ("p", 1, "breaks maximum 5"),
        ("secret_word", 2, "is not known to the schema"),
    ]


def test_warnings_are_twenty_at_most_and_hold_no_value() -> None:
    """Sync invariant 24."""
    text = "\n".join(f"k{number}: hunter{number}" for number in range(50))
    made = checked(text, {"additionalProperties": {"type": "integer", "enum": [1], "pattern": "x"}})

    assert len(made.warnings) == 20
    assert "hunter" not in "".join(map(str, made.warnings))


def test_the_tree_after_slicing_is_checked() -> None:
    schema = {"properties": {"port": {"type": "integer"}}, "additionalProperties": False}

    made = checked("staging: {port: x}\nproduction: {port: 1}", schema, strict_validation=True)
    assert made.values == {"port": "1"}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://example.com/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "#/$defs/none"},
        {"$ref": "#"},
        {"type": 5},
        {"patternProperties": {"(?=x)": {}}},
    ],
)
def test_schemas_that_cannot_be_evaluated(schema: dict[str, Any]) -> None:
    made = checked("a: 1", schema)
    assert [warning.code for warning in made.warnings] == ["schema_unavailable"]
    assert made.values == {"a": "1"}

    with pytest.raises(ShapingError) as raised:
        checked("a: 1", schema, strict_validation=True)
    assert raised.value.code == "schema_unavailable"


def test_a_broken_schema_that_marks_secrets_never_lets_a_value_through() -> None:
    """Sync invariant 18."""
    schema = {"$ref": "#/none", "properties": {"a": {"x-partita-secret": True}}}
    with pytest.raises(ShapingError) as raised:
        checked("a: 1", schema)

    assert raised.value.code == "secret_unavailable"


def test_patterns_take_linear_time() -> None:
    started = time.process_time()
    checked(f"a: {'a' * 5000}b", {"properties": {"a": {"pattern": "^(a+)+$"}}})

    assert time.process_time() - started < 2


def test_numbers_of_any_spelling_are_numbers_to_the_schema() -> None:
    schema = {"additionalProperties": {"type": "number"}}
    text = f"a: 0x1F\nb: 1.10\nc: 0123\nd: {'9' * 4000}\ne: 1e999"

    assert checked(text, schema, strict_validation=True).values["a"] == "0x1F"


def test_marks_of_a_json_schema() -> None:
    schema = {
        "$defs": {"password": {"x-partita-secret": "apps/shop/db#password"}},
        "properties": {
            "db": {"properties": {"password": {"$ref": "#/$defs/password"}}},
            "key": {"x-partita-secret": True, "x-partita-log": True},
            "list": {"items": {"anyOf": [{"type": "integer"}, {"x-partita-secret": True}]}},
            "level": {"x-partita-log": True},
            "absent": {"x-partita-secret": True},
        },
        "patternProperties": {"_token$": {"x-partita-secret": True}},
    }
    text = "db: {password: x}\nkey: y\nlist: [z]\nlevel: 1\napi_token: t\nfree: f"
    made = checked(text, schema, secrets=VAULT)

    assert made.values == {"free": "f", "level": "1"}
    assert {key: str(ref) for key, ref in made.secrets.items()} == {
        "api_token": "vault:apps/shop#api_token",
        "db.password": "vault:apps/shop/db#password",
        "key": "vault:apps/shop#key",
        "list.0": "vault:apps/shop#list.0",
    }
    assert [key for key, found in made.keys.items() if found.logged] == ["key", "level"]


def test_a_mark_survives_renaming() -> None:
    from sync_stack.core.bundle.rules import KeyFormat, Variable

    schema = {"properties": {"db": {"x-partita-secret": True}}}
    variables = {"DB_PASSWORD": Variable(text="db.password")}
    made = checked(
        "db: {password: x, user: u}",
        schema,
        secrets=VAULT,
        variables_map=variables,
        key_format=KeyFormat.FLAT,
    )

    assert {key: ref.key for key, ref in made.secrets.items()} == {
        "DB_PASSWORD": "db.password",
        "db_user": "db.user",
    }


def test_circular_references_of_a_schema_end() -> None:
    schema = {
        "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}, "s": SECRET}}},
        "$ref": "#/$defs/node",
    }
    made = checked("next: {next: {s: x}}\ns: y", schema, secrets=VAULT)

    assert [*made.secrets] == ["next.next.s", "s"]


SECRET = {"x-partita-secret": True}


def checked(text: str, schema: dict[str, Any], **fields: Any) -> Shaped:
    given = Schema(file="app.schema.json", text=json.dumps(schema))
    return shaped(text, schema=given, **fields)
