"""The documentation site under /docs/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.apps.http.conftest import Ask


@pytest.fixture
def site(settings: Any, tmp_path: Path) -> Path:
    """Return the folder of a small site, which the server serves."""
    folder = tmp_path / "documentation" / "html"
    settings.DOCUMENTATION_DIR = folder
    (folder / "guides").mkdir(parents=True)
    (folder / "index.html").write_text("<h1>Home</h1>")
    (folder / "index.md").write_text("# Home\n")
    (folder / "guides" / "index.html").write_text("<h1>Guides</h1>")
    (tmp_path / "documentation" / "secret.txt").write_text("not of the site")
    return folder


def test_anybody_reads_it_under_the_policy_of_every_page(ask: Ask, site: Path) -> None:
    answer = ask("GET", "/docs/")

    assert (answer.status_code, answer.text) == (200, "<h1>Home</h1>")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "script-src 'self';" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]


def test_folders_and_markdown_have_their_addresses(ask: Ask, site: Path) -> None:
    assert ask("GET", "/docs/guides/").text == "<h1>Guides</h1>"
    assert ask("GET", "/docs/index.md").headers["content-type"] == "text/markdown; charset=utf-8"
    assert ask("GET", "/docs").headers["location"] == "/docs/"


def test_a_page_that_did_not_change_is_not_sent_again(ask: Ask, site: Path) -> None:
    tag = ask("GET", "/docs/").headers["etag"]

    assert ask("GET", "/docs/", headers={"If-None-Match": tag}).status_code == 304
    (site / "index.html").write_text("<h1>Home, built anew</h1>")
    assert ask("GET", "/docs/", headers={"If-None-Match": tag}).status_code == 200


@pytest.mark.parametrize(
    "path", ["gone.html", "%2e%2e/secret.txt", "guides/%00", "a" * 300, "guides"]
)
def test_what_is_not_of_the_site_is_not_served(ask: Ask, site: Path, path: str) -> None:
    answer = ask("GET", f"/docs/{path}")

    assert answer.status_code == 404
    assert "not of the site" not in answer.text


def test_a_site_that_was_not_built_says_how_to_build_it(ask: Ask, settings: Any, tmp_path: Path):
    settings.DOCUMENTATION_DIR = tmp_path / "html"
    page = ask("GET", "/docs/", headers={"Accept": "text/html"})

    assert page.status_code == 404
    assert page.headers["content-type"].startswith("text/html")
    assert "make docs" in page.text


def test_it_is_only_read(ask: Ask, site: Path) -> None:
    answer = ask("POST", "/docs/")

    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
