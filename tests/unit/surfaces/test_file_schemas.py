"""The JSON Schemas of the files of mock/ that editors complete and check by (control-plane 6.3)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from surfaces.mock_files.file_schemas import FILE_SCHEMAS
from surfaces.mock_files.metadata_files import is_metadata
from surfaces.trees import read_tree
from tests.support.mock_file_mistakes import MARK
from tests.unit.surfaces import test_example_mistakes, test_metadata_mistakes

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "guides" / "mock-an-api.md"
WRITTEN = re.compile(r"This is `clinic/(mock/[^`]+\.yaml)`:\n\n```yaml\n(.*?)```", re.DOTALL)
SCHEMAS = {name: jsonschema_rs.validator_for(make()) for name, make in FILE_SCHEMAS.items()}


def problems(path: str, text: str) -> list[str]:
    schema = SCHEMAS["metadata" if is_metadata(path) else "examples"]
    return [each.message for each in schema.iter_errors(read_tree(text, path).plain())]


def example_files() -> Iterator[tuple[str, str]]:
    """Yield path and text of the mock files of the example suites, and of the guide."""
    for path in sorted((ROOT / "examples").rglob("mock/**/*.*")):
        if path.suffix in (".yaml", ".yml", ".json"):
            place = path.as_posix()
            yield place[place.rindex("/mock/") + 1 :], path.read_text()
    yield from WRITTEN.findall(GUIDE.read_text())


@pytest.mark.parametrize("name", FILE_SCHEMAS)
def test_a_schema_is_one_and_describes_what_it_holds(name):
    schema: Any = FILE_SCHEMAS[name]()

    jsonschema_rs.meta.validate(schema)
    assert all(each["description"] for each in schema["$defs"].values())


def test_the_files_of_the_examples_and_of_the_guide_suit_their_schema():
    files = list(example_files())

    assert len(files) > 8
    assert {path: found for path, text in files if (found := problems(path, text))} == {}


MISSPELLED = [
    (path, text.replace(MARK, ""))
    for path, mistakes in (
        ("mock/s/op.yaml", test_example_mistakes.MISTAKES),
        ("mock/s/op.metadata.yaml", test_metadata_mistakes.MISTAKES),
    )
    for text, says in mistakes
    if says.startswith(("did you mean", "write "))
]
# where any other key may stand, and in texts: templates, methods, names of other files' things
OPEN = re.compile(
    r"^(?!spec|examples|kind: MockSurface\n)|\n(?!  )\w+: op|contractPaht: api/s.yaml$|upperr|nwo|"
    r"acepted|refusd|surfce|PSOT|grcp|Kakfa|: {typ: |headers: \[{name: x, typ"
)


@pytest.mark.parametrize(
    ("path", "text"), [(path, text) for path, text in MISSPELLED if not OPEN.search(text)]
)
def test_an_editor_sees_what_is_misspelled(path, text):
    assert problems(path, text)
