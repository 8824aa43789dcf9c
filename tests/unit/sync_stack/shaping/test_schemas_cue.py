"""CUE schemas of files, checked by the built-in evaluator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sync_stack.core.file_errors import ShapingError
from sync_stack.core.shaping.model import Shaped
from sync_stack.core.shaping.schema import Schema
from sync_stack.core.shaping.secrets import SecretRules
from tests.unit.sync_stack.shaping.shaping import shaped

VAULT = SecretRules(manager="vault", prefix="apps/shop")


@pytest.mark.parametrize("schema", ["#Config: {port: int}", "port: int"])
def test_cue_schemas_check_the_value(schema: str) -> None:
    def made(text: str) -> Shaped:
        return shaped(text, schema=Schema(file="app.cue", text=schema), strict_validation=True)

    assert made("port: 80").files[0].validation == "ok"
    with pytest.raises(ShapingError) as raised:
        made("port: hunter2")
    assert (raised.value.code, raised.value.line) == ("schema_invalid", 1)
    assert "hunter2" not in str(raised.value)


def test_attributes_of_a_cue_schema_mark_keys() -> None:
    schema = (
        '#Config: {\n\tuser: string @logger()\n\tpassword: string @secret(ref="apps/shop/db#p")\n'
        "\ttoken: string @secret()\n}\n"
    )
    made = shaped(
        "user: u\npassword: x\ntoken: y",
        schema=Schema(file="app.cue", text=schema),
        secrets=VAULT,
    )

    assert made.values == {"user": "u"}
    assert made.keys["user"].logged
    assert {key: str(ref) for key, ref in made.secrets.items()} == {
        "password": "vault:apps/shop/db#p",
        "token": "vault:apps/shop#token",
    }


@pytest.mark.parametrize("strict", [True, False])
def test_a_file_that_breaks_a_schema_with_secrets_is_invalid_at_its_line(strict: bool) -> None:
    schema = '#Config: {\n\tport: int\n\tpassword: string @secret(ref="apps/shop/db#p")\n}\n'

    with pytest.raises(ShapingError) as raised:
        shaped(
            "password: hunter2\nport: many\n",
            schema=Schema(file="app.cue", text=schema),
            secrets=VAULT,
            strict_validation=strict,
        )

    assert (raised.value.code, raised.value.line) == ("schema_invalid", 2)
    assert raised.value.detail.startswith("port:")
    assert "hunter2" not in str(raised.value)


def program(folder: Path, script: str) -> str:
    path = folder / "cue"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


BEYOND = Schema(file="app.cue", text='import "strconv"\n#Config: port: strconv.Quote("x")\n')


def test_a_schema_beyond_the_built_in_evaluator_is_left_to_the_named_program(
    tmp_path: Path,
) -> None:
    answer = '[ "$1" = eval ] || { echo "port: conflicting values many" >&2; exit 1; }'
    schema = replace(BEYOND, cue_binary=program(tmp_path, answer))

    with pytest.raises(ShapingError) as raised:
        shaped("host: a\nport: many\n", schema=schema, strict_validation=True)

    assert (raised.value.code, raised.value.line) == ("schema_invalid", 2)
    assert "many" not in str(raised.value)


def test_without_the_program_such_a_schema_is_unavailable() -> None:
    with pytest.raises(ShapingError) as raised:
        shaped("port: x\n", schema=BEYOND, strict_validation=True)

    assert raised.value.code == "schema_unavailable"
    assert "unsupported_cue" in raised.value.detail
