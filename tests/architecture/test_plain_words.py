"""Sentences that an editor replaced do not come back into what people read."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.architecture.sources import ROOT, modules
from tests.support.documents import documents, shown

REPLACED = (  # what stood there → what stands there now
    ("Nobody was signed in", "Sign-in failed"),
    ("The sign-in did not reach its end", "It was interrupted before it finished"),
    ("it ends in # and a long word", "part of it seems to be missing"),
    ("it holds what this page needs", "Use the link in the email we sent you"),
    ("Ask who runs this site", "Ask your administrator"),
    ("Tested is what is stored", "Tests use the saved values"),
    ("its failure does not fail the run", "allowed to fail"),
    ("Draws of sequences", "Sequence positions"),
    ("or take a filter back", "or remove a filter"),
    ("Sign it out", "Sign out"),
    ("Switch to it", "Switch"),
    ("The connection is away", "Connection lost"),
    ("Rows of the installation", "Partita administration"),
    ("A file that is no text", "a binary file"),
    ("for what is no HTTP", "for non-HTTP input"),
    ("are refused always", "are always refused"),
    ("if groups shall make", "if group membership should grant"),
    ("Who gets in follows the rules above", "The same rules apply"),
    ("suite.star is as it should be", "already formatted"),
    ("who of them lives", "and their state"),
    ("There is no such page", "Page not found"),
    ("There is no such run", "Run not found"),
    ("There is no such suite", "Suite not found"),
    ("There is no such package", "Package not found"),
    ("There is no such shell", "This shell does not exist"),
    ("A token may never do more than you", "A token can never do more than you can"),
    ("every token of yours", "all your browser sessions and tokens"),
    ("Nothing of yours is lost", "Your changes are kept"),
    ("to change them needs another role", "Changing them needs another role"),
    ("did not answer as it should", "answered with something unexpected"),
    ("Look at a longer time", "Choose a longer period"),
    ("Look at all of them", "Clear the filters to see all of them"),
    ("What happens meanwhile is shown", "Updates will appear"),
    ("Sign in a command", "Sign in to the command line"),
    ("gets no token", "did not get a token"),
    ("It calls itself", "Program"),
    ("Code that the command shows", "Code shown by the command"),
    ("Nothing runs on the machines", "No environments"),
    ("Nothing of ours holds it", "Its run is over or unknown, or its supervisor is gone"),
    ("Nothing has run yet", "No runs yet"),
    ("Launch the first one", "Launch your first suite"),
    ("results stand here", "see its results here"),
    ("operations stand here", "operations are listed here"),
    ("No suite, hence no profiles", "No suites, so no profiles"),
    ("What it comes to", "Merged result"),
    ("Save over it", "Overwrite"),
    ("can be entered now", "cannot open a shell"),
    ("is entered itself", "the shell opens in its container"),
    ("was put back to an older content", "was replaced by an older version"),
    ("Nothing is offered yet", "No packages yet"),
    ("Something broke on our side", "Something went wrong on the server"),
    ("open what has the focus", "open the focused item"),
    ("To lock it anew", "To update the lock"),
    ("lets us in", "accepts the credentials"),
    ("may be another suite tomorrow", "can change at any time"),
    ("legal but most likely wrong", "valid but probably wrong"),
)
_BROKEN_TEXT = re.compile(r"[\"']\n\s*f?[\"']")  # a text over several lines of code
_OLD = re.compile("|".join(re.escape(old) for old, _new in REPLACED))


def read_texts() -> Iterator[tuple[str, str]]:
    """(place, text) of documents, pages, scripts of pages, and code."""
    for path in documents():
        if "decisions" not in path.parts and path.name != "CHANGELOG.md":
            yield shown(path), path.read_text()
    for folder, suffix in (("templates", "html"), ("static/console/js", "js")):
        for path in sorted((ROOT / folder).rglob(f"*.{suffix}")):
            yield shown(path), path.read_text()
    for name, text in modules():
        yield name, _BROKEN_TEXT.sub("", text)


def test_what_people_read_has_none_of_the_replaced_sentences() -> None:
    found = [
        f"{place}: {match[0]}"
        for place, text in read_texts()
        for match in _OLD.finditer(" ".join(text.split()))
        if not place.startswith("worker/runtimes/")  # a docstring about Kubernetes' objects
    ]
    assert found == []


@pytest.mark.parametrize(("old", "new"), REPLACED, ids=[old for old, _new in REPLACED])
def test_the_replacement_is_not_among_the_replaced(old: str, new: str) -> None:
    assert _OLD.search(old)
    assert not _OLD.search(new)
