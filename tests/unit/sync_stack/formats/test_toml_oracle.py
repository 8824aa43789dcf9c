# ruff: noqa: E501, RUF005 - samples read best as lines of words
"""Our reader of TOML accepts what the standard one accepts, and finds the same values."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from readers.tree import Kind, Tree
from sync_stack.core.file_errors import ShapingError
from sync_stack.core.formats import formats

PIECES = st.sampled_from(
    [
        "[a]", "[a.b]", "[[a]]", "[[a.b]]", "[b]", "[a.b.c]", "[[a.b.c]]", "a = 1", "a.b = 2",
        "a.b.c = 3", "b.c = 4", "b = {c = 1, d.e = 2}", "b.c.d = 1", "a = [1, 2]", "c = 1",
        "a = [{b = 1}]", "b = {}", 'a."b" = 1', "'a' = 2", "b = {a = {b = 1}, a.c = 2}", "[ a . b ]",
        "c.d = [\n 1,\n # x\n 2,\n]", "# comment", "", "d = 1979-05-27 07:32:00Z", "[d]",
    ]
)  # fmt: skip
VALUES = st.sampled_from(
    r"""1 +1 -0 01 1_0 1__0 _1 1_ 0x1F 0xg 0o17 0b1 1.0 1. .1 1e5 1.e5 1e+1_0 -1.5E-3 true True
    "x" 'x' "\n" "\x" "\u00e9" "\ud800" "\U0001F600" "a""b" 1979-05-27 1979-13-01 12:30:45 12:30
    07:32:00.123456789 1979-05-27T07:32:00+01:00 1979-05-27t07:32:00z 1979-05-27T24:00:00 [1,2] [1,,2] [,] [1,] {a=1} {a=1,} {,}
    {a=1,b=2} {a.b=1} {a={b=1}} [[1],[2]] "\" "\\" "\e" 9999999999999999999999 a + - . e1 1e 0e0 00 0.0 -00.1
    '''a''' \"\"\"a\"\"\" ''''a'''' '''a''''' '''a'''''' ''' \"\"\"\"""".replace('\\"\\"\\"', '"""').split()
    + ['"""\n a\\\n   b"""', '"a\nb"', "'''\n\na'''", '"a\tb"', '"a\x01b"', "[\n1\n]", "{\na=1}", "1 2"]
)  # fmt: skip


@given(lines=st.lists(PIECES, max_size=6))
@example(lines=["[a.b.c]", "[a]", "b.d = 1"])
@example(lines=["[[a]]", "[a.b]", "[[a]]", "[a.b]"])
@example(lines=["a = [{b = 1}]", "[[a]]"])
@settings(max_examples=5 * settings().max_examples)
def test_the_structure_of_tables_is_that_of_the_standard_reader(lines: list[str]) -> None:
    compare("\n".join(lines))


@given(value=VALUES)
@settings(max_examples=5 * settings().max_examples)
def test_scalars_are_those_of_the_standard_reader(value: str) -> None:
    compare(f"v = {value}\n")


@given(text=st.text(alphabet="a.b=1'\"[]{}\n#,-+_ \\eu", max_size=24))
@settings(max_examples=5 * settings().max_examples)
def test_random_text_is_accepted_as_by_the_standard_reader(text: str) -> None:
    compare(text)


@pytest.mark.parametrize("line", ["v = inf", "v = -nan", "v = [nan]", "v = {a = +inf}"])
def test_infinities_and_nan_are_refused(line: str) -> None:
    with pytest.raises(ShapingError) as raised:
        read(line)

    assert (raised.value.code, raised.value.line) == ("parse_error", 1)


def compare(text: str) -> None:
    try:
        expected = tomllib.loads(text, parse_float=str)
    except tomllib.TOMLDecodeError:
        with pytest.raises(ShapingError):
            read(text)
        return
    assert plain(read(text)) == spelled(expected)


def read(text: str) -> Tree:
    return formats["toml"].parse(text.encode(), file="x.toml")


def plain(tree: Tree) -> Any:
    if tree.kind is Kind.MAP:
        return {key: plain(value) for key, value in tree.pairs.items()}
    if tree.kind is Kind.LIST:
        return [plain(item) for item in tree.items]
    return moment(tree.text)


def moment(text: str) -> str:
    """Dates and times without what the standard reader does not keep."""
    if text[4:5] == "-":
        return text.upper().replace("T", " ")[:19]
    return text[:8] if text[2:3] == ":" else text


def spelled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: spelled(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [spelled(inner) for inner in value]
    if isinstance(value, bool):
        return str(value).lower()
    return moment(str(value))
