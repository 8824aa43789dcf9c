"""The files that the guides under docs/guides tell the reader to write."""

from __future__ import annotations

import re
from pathlib import Path

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"


def file_of(guide: str, path: str) -> str:
    """The text of the file that a guide introduces with "This is `path`:"."""
    text = (GUIDES / guide).read_text()
    found = re.search(rf"This is `{re.escape(path)}`:\n\n```python\n(.*?)^```$", text, re.S | re.M)
    assert found, f"{guide} has no {path}"
    return found[1]


def files_of(guide: str) -> dict[str, str]:
    """Path → text of every file that a guide has its reader write."""
    text = (GUIDES / guide).read_text()
    found = re.findall(r"This is `([^`]+)`:\n\n```\w+\n(.*?)^```$", text, re.S | re.M)
    return dict(found)


def commands_of(guide: str) -> list[tuple[str, list[str]]]:
    """Each command of a guide with the lines that it is said to print."""
    found: list[tuple[str, list[str]]] = []
    text = (GUIDES / guide).read_text()
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.S | re.M):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def prints(output: str, expected: list[str]) -> bool:
    """Whether the output is what a guide says; runs of spaces count as one.

    `…` as a line stands for any lines, within a line for any text.
    """
    pattern = ""
    for line in expected:
        words = re.escape(" ".join(line.split())).replace("…", ".*")
        pattern += r"(?:.*\n)*?" if line == "…" else rf"{words}\n"
    lines = (" ".join(line.split()) for line in output.splitlines())
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in lines)) is not None
