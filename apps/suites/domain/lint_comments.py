"""`# partita: ignore[code]` in the files of a suite: diagnostics that are accepted. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from apps.suites.domain.package import Package
from readers.diagnostics import Diagnostic

UNUSED: Final = "unused_ignore"
_COMMENT: Final = re.compile(r"#\s*partita:\s*ignore\[([a-z_,\s]*)\]")
_COMMENTED: Final = (".star", ".yaml", ".yml", ".py", ".sh")  # where # begins a comment
_MARK: Final = b"partita:"


def without_ignored(package: Package, found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return the diagnostics that no comment accepts, and those of comments that accept none.

    A comment accepts the warnings of its line or, alone on a line, of the next one. For warnings
    of a whole file it stands on the first line.
    """
    comments = {place: codes for path in package.files for place, codes in _comments(package, path)}
    used: set[tuple[str, int, str]] = set()
    kept = []
    for each in found:
        place = each.file, each.line or 1
        if each.severity == "warning" and each.code in comments.get(place, ()):
            used.add((*place, each.code))
        else:
            kept.append(each)
    return [*kept, *_find_unused(comments, used)]


def _comments(package: Package, path: str) -> Iterator[tuple[tuple[str, int], tuple[str, ...]]]:
    """Yield the line that each comment is about, and its codes."""
    if not path.endswith(_COMMENTED) or _MARK not in package.files[path]:
        return
    for number, line in enumerate(package.text(path).split("\n"), 1):
        if match := _COMMENT.search(line):
            codes = tuple(filter(None, (code.strip() for code in match[1].split(","))))
            alone = not line[: match.start()].strip() and number > 1
            yield (path, number + 1 if alone else number), codes


def _find_unused(
    comments: dict[tuple[str, int], tuple[str, ...]], used: set[tuple[str, int, str]]
) -> Iterator[Diagnostic]:
    for (path, line), codes in comments.items():
        for code in codes:
            if (path, line, code) not in used:
                yield Diagnostic(
                    code=UNUSED,
                    severity="warning",
                    message=f"nothing to ignore here has the code {code}; remove the comment",
                    file=path,
                    line=line,
                )
