"""The documents of this repository, and the texts that cite them, for architecture tests."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
_CODE_FOLDERS = (
    "apps", "bench", "cue", "documentation", "examples", "kernel", "mocks", "partita_mock",
    "platform_site", "proto", "readers", "static", "surfaces", "sync_stack", "templates",
    "tests", "worker",
)  # fmt: skip
_CODE_SUFFIXES = {".cue", ".css", ".html", ".js", ".proto", ".py", ".star"}
_NOT_OURS = {"cases", "gen", "html", "vendor", "__pycache__"}  # generated, of others, or test data
_HEADING = re.compile(r"^(#{1,6}) +(.+?) *$", re.MULTILINE)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(  # blocks, and lines of // or # that follow one another
    r"/\*.*?\*/|<!--.*?-->|\{#.*?#\}|(?:(?:^|(?<=\s))(?://|#)[^\n]*(?:\n[ \t]*(?=//|# ))?)+",
    re.DOTALL,
)
_NUMBER = re.compile(r"\d+(?:\.\d+)*(?= )")
_LINK = re.compile(r"\]\(([^()\s]+)\)")


def documents() -> list[Path]:
    """Every Markdown file that people read."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")),
            *sorted((ROOT / "bench").glob("*.md"))]  # fmt: skip


def sources() -> Iterator[Path]:
    """Every file of code that people write."""
    yield from sorted(ROOT.glob("*.py"))
    for folder in _CODE_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in _CODE_SUFFIXES and not _NOT_OURS & set(path.parts):
                yield path


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(path: Path, about: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """(line number, text) of what a file says in words, where that matches `about`.

    Of documents these are paragraphs, of code comments and docstrings. A text of several lines
    comes as one, with single spaces.
    """
    content = path.read_text(encoding="utf-8")
    if not about.search(content):
        return
    if path.suffix == ".py":
        texts = _words_of_python(content, about)
    elif path.suffix == ".md":
        texts = _paragraphs(_without_fences(content))
    else:
        texts = _comments_elsewhere(content)
    yield from ((line, text) for line, text in texts if about.search(text))


def _words_of_python(content: str, about: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring:
                yield node.body[0].lineno, _joined(docstring)
    if any("#" in line and about.search(line) for line in content.splitlines()):
        yield from _comments(content)


def _comments(content: str) -> Iterator[tuple[int, str]]:
    """Lines of comments that follow one another come as one."""
    first, last, words = 0, 0, ""
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, text = token.start[0], token.string.lstrip("#").strip()
        if words and line == last + 1:
            words = f"{words} {text}"
        else:
            if words:
                yield first, words
            first, words = line, text
        last = line
    if words:
        yield first, words


def _comments_elsewhere(content: str) -> Iterator[tuple[int, str]]:
    """Comments of JavaScript, CSS, HTML, templates, CUE, protobuf and Starlark."""
    for comment in _COMMENT.finditer(content):
        words = re.sub(r"^[ \t]*(?://|#|\*)", "", comment[0], flags=re.MULTILINE)
        yield content.count("\n", 0, comment.start()) + 1, _joined(words)


def _paragraphs(content: str) -> Iterator[tuple[int, str]]:
    line = 1
    for part in re.split(r"(\n\s*\n)", content):
        if part.strip():
            yield line, _joined(part)
        line += part.count("\n")


def _joined(text: str) -> str:
    return " ".join(text.split())


def _without_fences(content: str) -> str:
    """Code blocks become empty lines: line numbers stay."""
    return _FENCE.sub(lambda block: "\n" * block[0].count("\n"), content)


@cache
def sections(document: str) -> frozenset[str]:
    """The numbers of the headings of `docs/reference/<document>.md`; empty without such a file."""
    path = REFERENCE / f"{document}.md"
    if not path.is_file():
        return frozenset()
    titles = [title for _, title in _HEADING.findall(_without_fences(path.read_text()))]
    return frozenset(match[0] for title in titles if (match := _NUMBER.match(title)))


@cache
def anchors(path: Path) -> frozenset[str]:
    """What `#…` may follow the name of a document, by GitHub's rule."""
    found: Counter[str] = Counter()
    names = set()
    for _, title in _HEADING.findall(_without_fences(path.read_text(encoding="utf-8"))):
        name = re.sub(r"[^\w\- ]", "", title.replace("`", "").lower()).replace(" ", "-")
        names.add(f"{name}-{found[name]}" if found[name] else name)
        found[name] += 1
    return frozenset(names)


def links(path: Path) -> list[str]:
    """The targets of a document's links that stay in this repository."""
    targets = _LINK.findall(_without_fences(path.read_text(encoding="utf-8")))
    return [target for target in targets if not re.match(r"[a-z]+:", target)]
