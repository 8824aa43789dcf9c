"""Documents of the tree as pages of the site."""

from __future__ import annotations

from pathlib import Path

import pytest

from documentation.pages import (
    NO_SEARCH,
    DeadLink,
    decision_list,
    page_of,
    page_text,
    with_deep_lists,
    write_pages,
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a small tree with documents within and beside docs/."""
    texts = {
        "README.md": "# Product\n\nSee [the guide](docs/guides/start.md#now).\n",
        "CHANGELOG.md": "# Changelog\n",
        "CONTRIBUTING.md": "# Contributing\n",
        "SECURITY.md": "# Security\n",
        "bench/RESULTS.md": "# Benchmarks\n",
        "docs/README.md": "# Documents\n\n[Product](../README.md) [Records](decisions)\n",
        "docs/guides/start.md": "# Start\n\n## Now\n\n[Home](../README.md) [Code](../../run.py)\n",
        "docs/decisions/0001-a.md": "# 0001: First\n",
        "docs/decisions/0002-b.md": "# 0002: Second\n",
        "docs/images/run.txt": "picture",
        "run.py": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("document", "page"),
    [
        ("docs/README.md", "index.md"),
        ("docs/guides/start.md", "guides/start.md"),
        ("README.md", "project/overview.md"),
        ("docs/decisions", "decisions/index.md"),
        ("run.py", ""),
    ],
)
def test_a_document_has_one_page(document: str, page: str) -> None:
    assert page_of(document) == page


def test_links_lead_from_page_to_page(tree: Path, tmp_path: Path) -> None:
    write_pages(tmp_path / "pages", tree)

    index = (tmp_path / "pages" / "index.md").read_text()
    overview = (tmp_path / "pages" / "project" / "overview.md").read_text()
    assert "[Product](project/overview.md) [Records](decisions/index.md)" in index
    assert "[the guide](../guides/start.md#now)" in overview


def test_a_link_to_a_file_that_is_no_page_is_its_text(tree: Path) -> None:
    text = page_text("docs/guides/start.md", "[Code](../../run.py) [site](https://a.example)", tree)

    assert text == "Code [site](https://a.example)"


def test_code_blocks_stay_as_they_are(tree: Path) -> None:
    code = "```md\n[gone](nowhere.md)\n```\n"

    assert page_text("docs/README.md", code, tree) == code


def test_a_link_to_nothing_is_named_with_its_line(tree: Path) -> None:
    text = "# Start\n\n```sh\nls\n```\n\n[gone](gone.md)\n"

    with pytest.raises(DeadLink, match=r"docs/README.md:7: gone.md leads to no file"):
        page_text("docs/README.md", text, tree)


def test_files_beside_the_pages_come_along(tree: Path, tmp_path: Path) -> None:
    write_pages(tmp_path / "pages", tree)

    assert (tmp_path / "pages" / "images" / "run.txt").read_text() == "picture"


def test_what_contributors_read_stays_out_of_the_search(tree: Path, tmp_path: Path) -> None:
    write_pages(tmp_path / "pages", tree)

    assert (tmp_path / "pages" / "decisions" / "0001-a.md").read_text().startswith(NO_SEARCH)
    assert (tmp_path / "pages" / "guides" / "start.md").read_text().startswith("# Start")


def test_decision_records_are_listed_newest_first(tree: Path) -> None:
    lines = [line for line in decision_list(tree).splitlines() if line.startswith("- ")]

    assert lines == ["- [0002: Second](0002-b.md)", "- [0001: First](0001-a.md)"]


@pytest.mark.parametrize(
    ("text", "deep"),
    [
        ("1. One\n   ```sh\n   ls\n   ```\n2. Two", "1. One\n    ```sh\n    ls\n    ```\n2. Two"),
        ("- One\n  - Two\n    more\n", "- One\n    - Two\n      more\n"),
        ("10. Ten\n    more", "10. Ten\n    more"),
        ("Text\n  indented", "Text\n  indented"),
        ("- One\n\nText\n  indented", "- One\n\nText\n  indented"),
        ("```\n- code\n  - stays\n```", "```\n- code\n  - stays\n```"),
    ],
)
def test_lists_are_as_deep_as_the_builder_wants_them(text: str, deep: str) -> None:
    assert with_deep_lists(text) == deep
