"""The Markdown pages of the site, from the documents of the tree.

The tree's links lead from file to file, as Git platforms follow them. In the site, a document
outside of docs/ is a page under `project/`, and a link to any other file is its text alone.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = "docs"
OUTSIDE: Final = {  # documents beside docs/ → their pages
    "README.md": "project/overview.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security-policy.md",
    "bench/RESULTS.md": "project/benchmarks.md",
}
DECISIONS: Final = "decisions/index.md"
NOT_SEARCHED: Final = ("decisions/", "invariants", "sync-invariants", "project/benchmarks")
NO_SEARCH: Final = "---\nsearch:\n  exclude: true\n---\n\n"
_FENCE: Final = re.compile(r"(^ *```.*?^ *```[^\n]*$)", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_LIST_ITEM: Final = re.compile(r"(\d+\.|[-*]) +")
_LIST_INDENT: Final = 4  # of what belongs to a list item, for Python-Markdown; others take less
_TITLE: Final = re.compile(r"^# +(.+?) *$", re.MULTILINE)


class DeadLink(ValueError):
    """A link leads to a file that is not in the tree."""


def page_of(document: str) -> str:
    """Return the page of a document, by its path in the tree; empty for what is no page."""
    if document in OUTSIDE:
        return OUTSIDE[document]
    if document == f"{DOCS}/README.md":
        return "index.md"
    if document == f"{DOCS}/decisions":
        return DECISIONS
    return document.removeprefix(f"{DOCS}/") if document.startswith(f"{DOCS}/") else ""


def documents(root: Path = ROOT) -> list[str]:
    """Return the paths of all documents that become pages."""
    below = sorted((root / DOCS).rglob("*.md"))
    return [path.relative_to(root).as_posix() for path in below] + list(OUTSIDE)


def write_pages(target: Path, root: Path = ROOT) -> list[str]:
    """Write all pages and the files beside them below `target`; return the pages.

    Users search: what only contributors read is marked to stay out of the index. Raises DeadLink
    with the document and the line.
    """
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(root / DOCS, target, ignore=shutil.ignore_patterns("*.md"))
    pages = []
    for document in documents(root):
        page = page_of(document)
        text = page_text(document, (root / document).read_text(encoding="utf-8"), root)
        (target / page).parent.mkdir(parents=True, exist_ok=True)
        front = NO_SEARCH if page.startswith(NOT_SEARCHED) else ""
        (target / page).write_text(front + text, encoding="utf-8")
        pages.append(page)
    (target / DECISIONS).write_text(decision_list(root), encoding="utf-8")
    return [*pages, DECISIONS]


def page_text(document: str, text: str, root: Path = ROOT) -> str:
    """Return the document's text with its links and lists as the site needs them."""
    parts = _FENCE.split(with_deep_lists(text))
    for number in range(0, len(parts), 2):  # the others are code blocks
        before = sum(part.count("\n") for part in parts[:number])
        parts[number] = _with_site_links(document, parts[number], before, root)
    return "".join(parts)


def with_deep_lists(text: str) -> str:
    """Return the text with what belongs to a list item indented by four spaces.

    In the documents it stands below the text of its item, as CommonMark wants it.
    """
    lines, width, in_fence = [], 0, False
    for line in text.split("\n"):
        item = _LIST_ITEM.match(line)
        is_fence = line.lstrip().startswith("```")
        if width and line.startswith(" " * width):
            line = " " * (_LIST_INDENT - width) + line  # noqa: PLW2901
        elif line.strip() and not in_fence:
            width = len(item[0]) if item else 0
        in_fence ^= is_fence
        lines.append(line)
    return "\n".join(lines)


def _with_site_links(document: str, text: str, lines_before: int, root: Path) -> str:
    def site_link(match: re.Match[str]) -> str:
        label, address = match[1], match[2]
        path, hash_sign, anchor = address.partition("#")
        if not path or re.match(r"[a-z][a-z0-9+.-]*:", path):
            return match[0]
        target = os.path.normpath(PurePosixPath(document).parent / path)
        if not (root / target).exists():
            line = lines_before + text.count("\n", 0, match.start()) + 1
            raise DeadLink(f"{document}:{line}: {address} leads to no file of the tree")
        if not (page := page_of(target)):
            return label
        here = PurePosixPath(page_of(document)).parent
        return f"[{label}]({os.path.relpath(page, here)}{hash_sign}{anchor})"

    return _LINK.sub(site_link, text)


def decision_list(root: Path = ROOT) -> str:
    """Return the page that lists the decision records, newest first."""
    records = sorted((root / DOCS / "decisions").glob("*.md"), reverse=True)
    lines = [f"- [{title(path.read_text(encoding='utf-8'))}]({path.name})\n" for path in records]
    return (
        "# Decision records\n\n"
        "Choices that are hard to undo or surprise a reader: the context, the decision, and the "
        f"rejected alternatives. Newest first.\n\n{''.join(lines)}"
    )


def title(text: str) -> str:
    """Return the first heading of a page."""
    match = _TITLE.search(text)
    return match[1] if match else ""


def nav_pages(entries: list[object]) -> Iterator[tuple[str, str]]:
    """Return (part of the site, page) of each entry of the navigation, in order."""
    for entry in entries:
        if isinstance(entry, dict):
            for part, below in entry.items():
                pages = [below] if isinstance(below, str) else below
                yield from ((part, page) for _, page in nav_pages(pages))
        else:
            yield "", str(entry)
