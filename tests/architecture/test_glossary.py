"""The words of the glossary are the code's: no word to avoid is a name; its paths exist."""

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
    "control plane": ("apps", "kernel", "mocks", "platform_site", "worker"),
    "configuration sync": ("sync_stack",),
}


def avoided_names(half: str) -> frozenset[str]:
    """Return the names that the table of words to avoid has for a half, or for both."""
    table = GLOSSARY.split("## Words to avoid")[1]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| `")]
    own = [names for names, _, where in rows if where.strip() in (half, "both")]
    found = frozenset(re.findall(r"`(\w+)`", "".join(own)))
    assert len(found) > 40, "the table was not found"
    return found


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
def test_no_word_to_avoid_is_a_name(half: str) -> None:
    avoided = avoided_names(half)
    offenders = [f"{name} in {at}" for name, at in names_in_code(HALVES[half]) if name in avoided]
    assert not offenders, "docs/glossary.md has other words:\n" + "\n".join(offenders)


def test_the_code_that_a_term_names_exists() -> None:
    terms = GLOSSARY.split("## Words to avoid")[0]
    paths = re.findall(
        r"`((?:apps|cue|kernel|mocks|platform_site|readers|surfaces|sync_stack|worker)/[\w/.]+)`",
        terms,
    )
    assert len(paths) > 30
    missing = [path for path in paths if not (ROOT / path).exists()]
    assert not missing, missing
