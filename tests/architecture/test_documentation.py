"""Every document is a page of the site, and has its place in the navigation."""

from __future__ import annotations

import tomllib

from documentation.pages import DECISIONS, documents, nav_pages, page_of
from documentation.site import CONFIGURATION


def navigation() -> list[tuple[str, str]]:
    return list(nav_pages(tomllib.loads(CONFIGURATION.read_text())["project"]["nav"]))


def test_every_page_has_its_place_in_the_navigation() -> None:
    placed = {page for _, page in navigation()}
    pages = {page_of(document) for document in documents()}
    outside = {page for page in pages - placed if not page.startswith("decisions/")}

    assert outside == set(), "give it a place in documentation/zensical.toml"


def test_the_navigation_names_each_page_once_and_no_other() -> None:
    placed = [page for _, page in navigation()]

    assert set(placed) <= {page_of(document) for document in documents()} | {DECISIONS}
    assert len(placed) == len(set(placed))


def test_pages_for_contributors_stand_apart() -> None:
    contributors = {page for part, page in navigation() if part == "Contributing"}
    for_users = {page for part, page in navigation() if part != "Contributing"}

    assert {page for page in for_users if "adding-a" in page or "invariants" in page} == set()
    assert {"architecture.md", DECISIONS, "project/contributing.md"} <= contributors
