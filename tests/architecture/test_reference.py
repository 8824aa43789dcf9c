"""What the repository cites is in the repository.

A citation has the form `(reference: sync-stack 2.2)` and names sections of `docs/reference`.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.support import documents

_SECTIONS = r"\d+(?:\.\d+)*(?:(?:, | and )\d+(?:\.\d+)*(?![\w.]*[a-z]))*"
CITATION = re.compile(rf"reference: ([a-z-]+) ({_SECTIONS})")
MENTION = re.compile(r"(?<=\()reference:|(?<=; )reference:|\breference:(?= control| sync)")
BARE = re.compile(
    r"\b[Cc]ontract,?(?: sections?)? \d"  # contract 2.2
    r"|\bthe (?:sync's )?specification"
    r"|\(\d{1,2}\.\d{1,2}(?:(?:,| and|,? to|–) ?\d{1,2}\.\d{1,2})*\)"  # (2.2), (4.7, 4.8)
    r"|\b[Ss]ections? \d|§"
)
OWN = re.compile(r"\((\d{1,2}\.\d{1,2})\)|\bsection (\d{1,2}(?:\.\d{1,2})?)\b")
DOCUMENT_NAME = re.compile(r"\bdocs/[\w./-]*\w\.(?:md|yml|png)\b")
CITING = re.compile(r"reference:|[Cc]ontract|[Ss]ection|specification|\(\d{1,2}\.\d|§|docs/")


@cache
def said() -> tuple[tuple[str, str], ...]:
    """(`path:line`, text) of every comment, docstring and paragraph that may cite something."""
    return tuple(
        (f"{documents.shown(path)}:{line}", text)
        for path in [*documents.documents(), *documents.sources()]
        if path != Path(__file__).resolve()
        for line, text in documents.prose(path, CITING)
    )


def wrong_citations(text: str) -> list[str]:
    """Citations that name no section; a mention of the reference must be a citation."""
    cited = {match.start(): match for match in CITATION.finditer(text)}
    wrong = []
    for mention in MENTION.finditer(text):
        match = cited.get(mention.start())
        numbers = re.findall(r"\d+(?:\.\d+)*", match[2]) if match else []
        if match is None or not set(numbers) <= documents.sections(match[1]):
            wrong.append(text[mention.start() : mention.start() + 60])
    return wrong


def test_every_citation_names_a_section_of_the_reference() -> None:
    found = [f"{place}: {cited}" for place, text in said() for cited in wrong_citations(text)]
    assert found == []


def test_nothing_cites_a_section_without_its_document() -> None:
    found = [
        f"{place}: {match[0]}"
        for place, text in said()
        if not place.startswith("docs/reference/")  # there a number is one of its own
        for match in BARE.finditer(text)
    ]
    assert found == []


@pytest.mark.parametrize("path", sorted(documents.REFERENCE.glob("*.md")), ids=documents.shown)
def test_the_reference_cites_sections_that_it_has(path: Path) -> None:
    own = documents.sections(path.stem)
    numbers = {match[1] or match[2] for _, text in documents.prose(path, OWN)
               for match in OWN.finditer(text)}  # fmt: skip
    assert own
    assert numbers <= own


@pytest.mark.parametrize("path", documents.documents(), ids=documents.shown)
def test_a_merge_left_no_mark_and_no_chapter_twice(path: Path) -> None:
    lines = path.read_text().splitlines()

    assert [line for line in lines if line.startswith(("<<<<<<< ", ">>>>>>> "))] == []
    chapters = Counter(line for line in lines if line.startswith("## "))
    assert [chapter for chapter, count in chapters.items() if count > 1] == []


@pytest.mark.parametrize("path", documents.documents(), ids=documents.shown)
def test_every_link_leads_to_a_file_and_a_heading(path: Path) -> None:
    broken = []
    for target in documents.links(path):
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        if not file.exists() or (anchor and anchor not in documents.anchors(file)):
            broken.append(target)
    assert broken == []


def test_every_document_that_is_named_exists() -> None:
    found = [
        f"{place}: {name}"
        for place, text in said()
        for name in DOCUMENT_NAME.findall(text)
        if not (documents.ROOT / name).exists()
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "Replay records (contract 2.5).",
        "As the contract, section 3, says.",
        "The rules of the contract section 2",
        "Slicing (4.5, 4.6).",
        "The defaults of section 7.3",
        "See § 2.",
    ],
)
def test_bare_citations_are_recognized(text: str) -> None:
    assert BARE.search(text)


@pytest.mark.parametrize(
    ("text", "is_wrong"),
    [
        ("Fencing (reference: control-plane 15.2).", False),
        ("Fencing (reference: control-plane 15.1 and 15.2, lease).", False),
        ("Fencing (reference: sync-stack 4.8, 5, s3).", False),
        ("Fencing (reference: control-plane 99.1).", True),
        ("Fencing (reference: control-plane 15.2, 15.9).", True),
        ("Fencing (reference: some-book 1).", True),
        ("Fencing (reference: 15.2).", True),
    ],
)
def test_citations_are_resolved(text: str, is_wrong: bool) -> None:
    assert bool(wrong_citations(text)) is is_wrong
