# ruff: noqa: PT017, E501 - samples read best as lines of words
"""Files made to hurt end quickly in a parse error, and never in anything else."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sync_stack.core.file_errors import ShapingError
from sync_stack.core.formats import MAX_BYTES, formats
from sync_stack.core.shaping.leaves import flat_values, flatten

pytestmark = pytest.mark.slow

BIG = 16 * 2**20 - 64
DEEP = 100_000
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
XML_LAUGHS = (
    '<!DOCTYPE l [<!ENTITY a "ha">'
    + "".join(
        f'<!ENTITY {new} "{f"&{old};" * 10}">' for old, new in zip("abcdef", "bcdefg", strict=True)
    )
    + "]><l>&g;</l>"
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("yaml", "[" * DEEP), ("yaml", "{a: " * DEEP), ("yaml", "- " * DEEP + "x"),
        ("json", "[" * DEEP), ("json", '{"a":' * DEEP), ("jsonc", "[" * DEEP),
        ("toml", "a = " + "[" * DEEP), ("toml", "a = " + "{a=" * DEEP), ("toml", f"[{'a.' * DEEP}a]"),
        ("toml", f"{'a.' * DEEP}a = 1"), ("xml", "<a>" * DEEP), ("hcl", "a {\n" * DEEP),
        ("hcl", "a = " + "[" * DEEP), ("hcl", "a = " + "{a=" * DEEP), ("hcl", f"a {'b ' * DEEP}{{}}"),
    ],
)  # fmt: skip
def test_depth_bombs(name: str, text: str) -> None:
    error = refused(name, text)

    assert "nested more than 64 deep" in error.detail


@pytest.mark.parametrize(
    ("name", "at_limit"),
    [
        ("yaml", "[" * 64 + "]" * 64), ("json", "[" * 64 + "]" * 64),
        ("toml", "a = " + "[" * 63 + "]" * 63), ("hcl", "a = " + "[" * 63 + "]" * 63),
        ("xml", "<a>" * 62 + '<a b="c"/>' + "</a>" * 62),
    ],
)  # fmt: skip
def test_sixty_four_levels_are_allowed(name: str, at_limit: str) -> None:
    formats[name].parse(at_limit.encode(), file="x")


def test_aliases_that_multiply_are_refused() -> None:
    assert "alias expansions" in refused("yaml", LAUGHS).detail


def test_a_hundred_alias_expansions_are_allowed_and_no_more() -> None:
    text = "a: &a x\nb: [" + "*a," * 100 + "]"

    assert len(flat_values(formats["yaml"].parse(text.encode(), file="x"))) == 101
    assert "more than 100 alias expansions" in refused("yaml", text[:-1] + "*a]").detail


def test_the_billion_laughs_of_xml_are_refused() -> None:
    assert refused("xml", XML_LAUGHS).code == "parse_error"


def test_merges_that_multiply_are_refused() -> None:
    text = "a: &a {x: 1}\n" + "\n".join(
        f"m{number}: &m{number} {{<<: [{', '.join([f'*m{number - 1}' if number else '*a'] * 8)}]}}"
        for number in range(6)
    )

    assert "alias expansions" in refused("yaml", text).detail


@pytest.mark.parametrize("name", sorted(formats))
@pytest.mark.parametrize(
    "piece",
    ["[1],", "- a\n", "a", "\\", '"', "'", "=", "a=1\n", "{", " ", "\n", "#", "/*", "\\\n", "<a/>",
     "<!--", "&", '\\"', "a: 1\n", "a.", "[a]\n", "0", '"a":1,', '"a",', "a{}\n", "''", '"""'],
)  # fmt: skip
def test_the_same_piece_again_and_again_ends_soon(name: str, piece: str) -> None:
    text = piece * (2**16 // len(piece))
    for prefix in ["", "[", '{"a":"', 'a = "', "a = [", "<a>"]:
        ends_within(3.0, name, prefix + text)


@pytest.mark.parametrize(
    ("name", "piece"),
    [
        ("yaml", "- a\n"), ("json", '\\"'), ("jsonc", "/**/"), ("toml", "[[a]]\n"), ("ini", "a\n"),
        ("env", "\\n"), ("properties", "\\\n"), ("xml", "<a/>"), ("hcl", "1,"),
    ],
)  # fmt: skip
def test_sixteen_mebibytes_end_soon(name: str, piece: str) -> None:
    start = {"json": "[", "hcl": "a = [", "xml": "<r>"}.get(name, "")
    if piece in ("\\n", '\\"'):
        start = {"json": '["', "toml": 'a = "', "env": 'A="', "hcl": 'a = "'}[name]
    ends_within(20.0, name, start + piece * (BIG // len(piece)))


def ends_within(seconds: float, name: str, text: str) -> None:
    started = time.process_time()
    try:
        flatten(formats[name].parse(text.encode(), file="x"))
    except ShapingError as error:
        assert error.code in ("parse_error", "too_many_keys", "unsupported_expression")
    assert time.process_time() - started < seconds


def test_files_beyond_sixteen_mebibytes_are_refused_unread() -> None:
    assert refused("json", " " * (MAX_BYTES + 1)).code == "parse_error"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("yaml", 'a: "\\0"'), ("yaml", 'a: "\\ud800"'), ("yaml", '"\\ud800": 1'), ("yaml", "a: \0"),
        ("json", '{"a": "\\u0000"}'), ("json", '{"a": "\\ud800x"}'), ("json", '{"\\udfff": 1}'),
        ("jsonc", '["\\ud800"]'), ("toml", 'a = "\\ud800"'), ("toml", 'a = "\\u0000"'),
        ("properties", "a=\\ud800"), ("properties", "\\u0000=1"), ("properties", "a=\\udc00\\ud800"),
        ("env", "A=\0"), ("ini", "a=\0"), ("xml", "<a>\0</a>"), ("xml", "<a>&#xD800;</a>"),
        ("xml", "<a>&#0;</a>"), ("hcl", 'a = "\\ud800"'), ("hcl", 'a = "\\u0000"'),
        ("hcl", 'a = "\\UFFFFFFFF"'),
    ],
)  # fmt: skip
def test_nul_and_halves_of_surrogate_pairs_are_refused(name: str, text: str) -> None:
    error = refused(name, text)

    assert (error.code, error.line) == ("parse_error", 1)


ALPHABET = "ab01 .:=-\n\t\"'[]{}<>/\\#!&*|,$@()%~^éu\r"


@pytest.mark.parametrize("name", sorted(formats))
@settings(max_examples=8 * settings().max_examples)
@given(text=st.text(alphabet=ALPHABET, max_size=60))
def test_random_text_is_read_or_refused(name: str, text: str) -> None:
    read_or_refuse(name, text.encode())


@pytest.mark.parametrize("name", sorted(formats))
@given(data=st.binary(max_size=60))
def test_random_bytes_are_read_or_refused(name: str, data: bytes) -> None:
    read_or_refuse(name, data)


def read_or_refuse(name: str, data: bytes) -> None:
    try:
        flatten(formats[name].parse(data, file="x"))
    except ShapingError as error:
        assert (error.file, error.line >= 1, error.column >= 1) == ("x", True, True)


def refused(name: str, text: str) -> ShapingError:
    started = time.process_time()
    with pytest.raises(ShapingError) as raised:
        formats[name].parse(text.encode("utf-8", "surrogatepass"), file="x")
    assert time.process_time() - started < 3
    return raised.value
