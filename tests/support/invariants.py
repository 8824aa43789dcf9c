"""`docs/invariants.md` and `docs/sync-invariants.md`: the rules, and which test provokes which.

The documents hold the rules. Tests name them in docstrings: "Invariant 8", "Sync invariant 7".

python -m tests.support.invariants     updates the lists of tests; an architecture test compares
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "invariants.md"
SYNC_DOCUMENT = ROOT / "docs" / "sync-invariants.md"
_NUMBERS = r"[Ii]nvariants?\s+(\d+(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+)\d+)*)"
NAMED: Final = {  # how docstrings name the rules of each document
    DOCUMENT: re.compile(rf"(?<![Ss]ync ){_NUMBERS}"),
    SYNC_DOCUMENT: re.compile(rf"(?<=[Ss]ync ){_NUMBERS}"),
}
_RULE = re.compile(r"^## (?=(\d+)\. )", re.MULTILINE)
_UNTESTED = "No test yet."
_LISTED = ("- `", _UNTESTED)


def rules(path: Path) -> dict[int, str]:
    """Number → the section that states the rule, without its list of tests."""
    parts = _RULE.split(path.read_text(encoding="utf-8"))[1:]
    return {
        int(number): "\n".join(
            line for line in section.splitlines() if not line.startswith(_LISTED)
        ).rstrip()
        for number, section in zip(parts[::2], parts[1::2], strict=True)
    }


@cache
def tests_by_rule(path: Path) -> dict[int, list[str]]:
    """Rule number → `path::test`, sorted; a module's docstring counts for the module."""
    found: dict[int, set[str]] = defaultdict(set)
    for place, docstring in _docstrings():
        for match in NAMED[path].finditer(docstring):
            for number in re.findall(r"\d+", match[1]):
                found[int(number)].add(place)
    return {number: sorted(places) for number, places in found.items()}


@cache
def _docstrings() -> tuple[tuple[str, str], ...]:
    """(`path::test`, docstring) of every module, class and function of the tests that has one."""
    return tuple(
        (f"{file.relative_to(ROOT)}::{name}" if name else str(file.relative_to(ROOT)), docstring)
        for file in sorted((ROOT / "tests").rglob("test_*.py"))
        for name, docstring in _docstrings_of(ast.parse(file.read_text()))
    )


def _docstrings_of(tree: ast.Module) -> Iterator[tuple[str, str]]:
    yield "", ast.get_docstring(tree) or ""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, ast.get_docstring(node) or ""


def updated(path: Path) -> str:
    """Return the document with the lists of tests as they are now."""
    head = _RULE.split(path.read_text(encoding="utf-8"))[0].rstrip()
    return "\n\n".join([head, *_sections(rules(path), tests_by_rule(path))]) + "\n"


def _sections(stated: Mapping[int, str], covered: Mapping[int, list[str]]) -> Iterator[str]:
    for number, rule in stated.items():
        places = [f"- `{place}`" for place in covered.get(number, [])]
        yield f"## {rule}\n\n" + "\n".join(places or [_UNTESTED])


if __name__ == "__main__":
    for document in NAMED:
        document.write_text(updated(document))
