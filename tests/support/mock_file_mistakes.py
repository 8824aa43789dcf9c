"""Mistakes in the files of `mock/`: a text whose mark says where the mistake is."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.surfaces import hydrated

MARK = "¶"


def told(path: str, text: str, others: Mapping[str, str]) -> tuple[list[str], str]:
    """Return the warnings at the mark as `line:column: detail`, and all of them as one text."""
    before, _, after = text.partition(MARK)
    place = (before.count("\n") + 1, len(before) - before.rfind("\n"))
    found = hydrated({**others, path: before + after})
    listed = [
        (file, line, column, detail)
        for (_, file, line, column), detail in zip(found.warnings, found.details, strict=True)
    ]
    at_mark = [detail for file, *at, detail in listed if file == path and tuple(at) == place]
    return at_mark, "\n".join(
        f"{file}:{line}:{column}: {detail}" for file, line, column, detail in listed
    )
