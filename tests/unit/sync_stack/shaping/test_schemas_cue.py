"""CUE schemas of files, checked by the built-in evaluator."""

from __future__ import annotations

import pytest

from sync_stack.core.shaping import Schema, SecretRules, Shaped, ShapingError
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
