"""The project's own Python files, as the architecture tests read them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "apps", "cue", "kernel", "mocks", "partita_client", "partita_mock", "platform_site", "readers",
    "surfaces", "sync_stack", "worker",
)  # fmt: skip


def modules(*packages: str) -> Iterator[tuple[str, str]]:
    """(path below the root, text) of every module, migrations left out."""
    for package in packages or PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def lines_matching(pattern: str, *packages: str) -> list[str]:
    """`path:line: text` wherever a line of code (no comment) matches."""
    wanted = re.compile(pattern)
    return [
        f"{path}:{number}: {line.strip()}"
        for path, text in modules(*packages)
        for number, line in enumerate(text.splitlines(), 1)
        if wanted.search(line.split("#")[0])
    ]


def trees(*packages: str) -> Iterator[tuple[str, ast.Module]]:
    for path, text in modules(*packages):
        yield path, ast.parse(text, path)
