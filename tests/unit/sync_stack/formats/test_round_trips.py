# ruff: noqa: SIM905, PT017, RUF005 - samples read best as lines of words
"""What a sink writes reads back as the same flat settings, in every format that is written."""

from __future__ import annotations

import json
import tomllib

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from readers.tree import Kind
from sync_stack.core.file_errors import ShapingError
from sync_stack.core.formats import build_tree, formats, render
from sync_stack.core.shaping.leaves import flat_values

WRITTEN = ["json", "yaml", "toml", "properties"]
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
WORDS = st.sampled_from(
    "1.10 0123 no yes on 1e3 20000000000000000001 true false null ~ nan .inf +5 -0 007 0x1F 0o17 "
    "1_000 .5 5. 1979-05-27 12:30:45 1:20 << = - ? : # ' \" \\ \\n @secret() ${x} %{y} "
    "\u2028 \ufeff \x85 \x1b 😀 Y TRUE None".split()
    + [
        "",
        " ",
        " a",
        "a ",
        "a\nb",
        "\n",
        "a\r\nb",
        "\t",
        "a: b",
        "a #b",
        "- a",
        "[a]",
        "{a",
        "a\n\nb",
    ]
)
VALUES = st.dictionaries(TEXT | WORDS, TEXT | WORDS, max_size=6)
SEGMENTS = st.lists(st.sampled_from(["a", "b", "0", "1", "2", "", "x y"]), min_size=1, max_size=5)
NESTED = st.dictionaries(SEGMENTS.map(".".join), TEXT | WORDS, max_size=12)


def read_back(data: bytes, name: str) -> dict[str, str]:
    return dict(flat_values(formats[name].parse(data, file=f"x.{name}")))


@pytest.mark.parametrize("name", WRITTEN)
@given(values=VALUES, native=st.booleans())
def test_flat_settings_read_back_the_same(name: str, values: dict[str, str], native: bool) -> None:
    """Sync invariant 21."""
    assert read_back(render(values, name, native=native), name) == values


@pytest.mark.parametrize("name", WRITTEN)
@given(values=NESTED, native=st.booleans())
@example(values={"a": "1", "a.b": "2", "a.b.c": "3", "a.0": "4"}, native=True)
@example(values={".".join("x" * 100): "deep"}, native=False)
@example(values={"0": "a", "1": "b"}, native=False)
@example(values={"l.0.a": "a", "l.1": "b", "l.2.0": "c", "k" * 511: "v"}, native=False)
def test_nested_settings_flatten_to_the_same_keys(
    name: str, values: dict[str, str], native: bool
) -> None:
    """Sync invariants 20 and 21."""
    assert read_back(render(values, name, nested=True, native=native), name) == values


@given(
    values=st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]*", fullmatch=True), TEXT | WORDS)
)
def test_env_files_take_any_value(values: dict[str, str]) -> None:
    """Sync invariant 21."""
    assert read_back(render(values, "env"), "env") == values


@given(values=VALUES | NESTED, nested=st.booleans())
@example(values={"a": "x\ny\nz", "b.c": "[s]", "b.d": "\nx"}, nested=True)
def test_ini_reads_back_the_same_or_refuses(values: dict[str, str], nested: bool) -> None:
    """Sync invariant 21."""
    try:
        data = render(values, "ini", nested=nested)
    except ShapingError as error:
        assert error.code == "key_invalid"
        return
    assert read_back(data, "ini") == values


@pytest.mark.parametrize("name", ["a-b", "1a", "a.b", "", "ä", "a b"])
def test_env_files_refuse_names_that_are_no_variables(name: str) -> None:
    with pytest.raises(ShapingError) as raised:
        render({name: "x"}, "env")

    assert raised.value.code == "key_invalid"


@given(values=NESTED)
def test_other_readers_agree_with_what_is_written(values: dict[str, str]) -> None:
    tree = build_tree(values, nested=True)

    assert json.loads(render(tree, "json")) == tree.plain()
    assert tomllib.loads(render(tree, "toml").decode()) == tree.plain()
    assert yaml.safe_load(render(tree, "yaml")) == tree.plain()


def test_native_output_keeps_numbers_that_read_back_the_same() -> None:
    values = {"a": "1.10", "b": "0123", "c": "true", "d": "no", "e": "20000000000000000001"}

    assert render(values, "json", native=True).decode() == (
        '{\n  "a": 1.10,\n  "b": "0123",\n  "c": true,\n  "d": "no",\n'
        '  "e": 20000000000000000001\n}\n'
    )
    assert 'b = "0123"\n' in render(values, "toml", native=True).decode()
    assert "b: 0123\n" in render(values, "yaml", native=True).decode()


def test_output_is_sorted_utf8_with_a_newline_at_the_end() -> None:
    data = render({"b": "é", "a": "1"}, "yaml")

    assert data == 'a: "1"\nb: "é"\n'.encode()


def test_dots_become_levels_and_indices_lists_only_where_asked() -> None:
    values = {"l.0": "x", "l.1": "y", "m.a": "z"}

    assert render(values, "toml").decode() == '"l.0" = "x"\n"l.1" = "y"\n"m.a" = "z"\n'
    assert render(values, "toml", nested=True).decode() == 'l = ["x", "y"]\n\n[m]\na = "z"\n'
    assert build_tree(values, nested=True).pairs["l"].kind is Kind.LIST


@pytest.mark.parametrize("name", ["xml", "hcl", "jsonc", "nope"])
def test_formats_that_are_only_read_cannot_be_written(name: str) -> None:
    with pytest.raises(ShapingError, match="not a format that can be written"):
        render({}, name)
