"""Misspellings and mistakes in contracts: none is silent, each is named with its place."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.mistakes import Mistake, read_mistakes, said_of_suite

TABLES = sorted(Path(__file__).with_name("mistakes").glob("*.txt"))
CASES = [
    pytest.param(mistake, id=f"{table.stem}: {mistake}")
    for table in TABLES
    for mistake in read_mistakes(table)
]


@pytest.mark.parametrize("mistake", CASES)
def test_a_mistake_is_named_at_its_place(mistake: Mistake):
    if not mistake.words:
        assert said_of_suite({mistake.path: mistake.text}) == []
        return
    mistake.check(said_of_suite({mistake.path: mistake.wrong_text()}))


def _schemas(count: int, schema: str) -> str:
    return "".join(f"    s{number}: {schema}\n" for number in range(count))


HOSTILE = {
    "api/a.yaml": "openapi: 3.0.3\npaths: {}\ncomponents:\n  schemas:\n"
    + _schemas(5_000, "{requird: [a], typ: b, $ref: '#/nowhere'}"),
    "api/a.graphql": "type Query {\n" + "\n".join(f"  a{each}: T{each}" for each in range(4_000))
    + "\n}\n" + "\n".join(f"type U{each} {{a: Int}}" for each in range(3_000)),
    "api/a.wsdl": '<w:definitions xmlns:w="http://schemas.xmlsoap.org/wsdl/"><w:portType name="p">'
    + "".join(f'<w:operation name="o{each}"><w:input message="m{each}"/></w:operation>'
              for each in range(3_000))
    + "</w:portType></w:definitions>",
}  # fmt: skip


@pytest.mark.parametrize("path", HOSTILE)
def test_a_document_of_thousands_of_mistakes_costs_little_and_lists_some(path):
    begun = time.process_time()

    said = said_of_suite({path: HOSTILE[path]})

    assert time.process_time() - begun < 20
    assert 0 < len(said) <= 51
