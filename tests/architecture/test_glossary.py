"""The words of the glossary are the code's: no retired name is used; its paths exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.sources import ROOT, modules

GLOSSARY: Final = (ROOT / "docs" / "glossary.md").read_text()
HALVES: Final = {
    "Control plane": ("apps", "kernel", "mocks", "platform_site", "worker"),
    "Configuration sync": ("sync_stack",),
}
# words of the language or of the field, retired as the names of one thing each
ORDINARY: Final = frozenset(
    {
        *("accept", "at", "calls", "changed", "create", "environment", "execute", "found"),
        *("frames", "keys", "opened", "pipeline", "reading", "running", "services", "start"),
        *("store", "word", "words"),
        *("Chunk", "Registered"),  # names of the wire
    }
)


def retired_names(half: str) -> frozenset[str]:
    """The names in the first column of a half's table that no row gives back as new."""
    table = GLOSSARY.split("## Retired names")[1].split(f"### {half}")[1].split("\n### ")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| `")]
    old = {name for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    new = {name for row in rows for name in re.findall(r"`(?:[\w/.]*/)?(\w+?)(?:\.py)?`", row[2])}
    assert len(old) > 50, "the table was not found"
    return frozenset(old - new - ORDINARY)


def names_in_code(folders: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Every package, module, class and function of the product, with where it is."""
    for where, text in modules(*folders):
        if "/gen/" in where:
            continue
        path = Path(where)
        yield (path.parent.name if path.stem == "__init__" else path.stem), where
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.name, f"{where}:{node.lineno}"


@pytest.mark.parametrize("half", HALVES)
def test_no_retired_name_is_used(half: str) -> None:
    retired = retired_names(half)
    offenders = [f"{name} in {at}" for name, at in names_in_code(HALVES[half]) if name in retired]
    assert not offenders, "docs/glossary.md has successors:\n" + "\n".join(offenders)


def test_the_code_that_a_term_names_exists() -> None:
    terms = GLOSSARY.split("## Retired names")[0]
    paths = re.findall(r"`((?:apps|kernel|platform_site|sync_stack|worker|cue)/[\w/.]+)`", terms)
    assert len(paths) > 30
    missing = [path for path in paths if not (ROOT / path).exists()]
    assert not missing, missing
