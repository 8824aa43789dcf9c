"""Keys in the case that a destination wants."""

from __future__ import annotations

import pytest

from sync_stack.core.bundle.datasources import KeyCase
from sync_stack.core.shaping.model import Shaped, ShapedKey
from sync_stack.core.tasks import TaskError
from tests.unit.sync_stack.shaping.shaping import shaped


@pytest.mark.parametrize(
    ("case", "names"),
    [
        (KeyCase.KEEP, {"Db.Host": "Db.Host", "port": "port"}),
        (KeyCase.UPPER, {"DB.HOST": "Db.Host", "PORT": "port"}),
        (KeyCase.LOWER, {"db.host": "Db.Host", "port": "port"}),
    ],
)
def test_each_key_has_one_name_at_the_destination(case: KeyCase, names: dict[str, str]) -> None:
    assert shaped("Db: {Host: a}\nport: 1").spell_keys(case) == names


def test_two_keys_that_differ_in_case_alone_are_a_conflict_where_case_is_folded() -> None:
    made = shaped("port: 1\nPORT: 2")

    assert made.spell_keys(KeyCase.KEEP).keys() == {"port", "PORT"}
    with pytest.raises(TaskError) as raised:
        made.spell_keys(KeyCase.UPPER)

    error = raised.value
    assert (error.code, error.file, error.line) == ("key_conflict", "app.yaml", 1)
    assert error.detail == "'PORT' and 'port' both become 'PORT' at this destination"


def test_logged_keys_have_the_names_of_the_destination() -> None:
    logged = ShapedKey(file="app.yaml", logged=True)
    made = Shaped(values={}, keys={"a": logged, "b": ShapedKey(file="app.yaml")})

    assert made.logged_keys(KeyCase.UPPER) == {"A"}
