"""What is done to the pages that Zensical built."""

from __future__ import annotations

from pathlib import Path

import pytest

from documentation.pages import write_pages
from documentation.site import (
    SiteError,
    build,
    changed_script,
    dead_links,
    llms_text,
    page_html,
    run_zensical,
    summary,
)

PAGE = '<html><head></head><body id="top"><a href="{}">x</a></body></html>'


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    write_pages(folder)
    return folder


def test_inline_scripts_become_files(tmp_path: Path) -> None:
    page = tmp_path / "guides" / "start.html"
    page.parent.mkdir()
    page.write_text('<head><script>a()</script><script src="b.js"></script></head>')
    scripts: dict[str, str] = {}

    text = page_html(page, tmp_path, scripts)

    ((name, script),) = scripts.items()
    assert script == "a()"
    assert f'<script src="../{name}"></script><script src="b.js"></script>' in text
    assert '<link rel="alternate" type="text/markdown" href="start.md">' in text


@pytest.mark.parametrize(
    ("address", "is_dead"),
    [
        ("other.html", False),
        ("other.html#top", False),
        ("#top", False),
        ("https://elsewhere.example/x", False),
        ("missing.html", True),
        ("other.html#gone", True),
        ("#gone", True),
    ],
)
def test_dead_links_are_found(tmp_path: Path, address: str, is_dead: bool) -> None:
    (tmp_path / "other.html").write_text(PAGE.format("#top"))
    (tmp_path / "page.html").write_text(PAGE.format(address))

    expected = [f"page.html: {address} leads nowhere"] if is_dead else []
    assert dead_links(tmp_path) == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("# A\n\nA suite is a folder. It has files.\n", ": A suite is a folder"),
        ("# A\n\nSee [the guide](x.md) and `b`: now. Later.\n", ": See the guide and b: now"),
        ("# A\n\n`b` does it.\n", ": b does it"),
        ("# A\n\n```sh\nb\n```\n", ""),
        ("# A\n\n1. First\n", ""),
        ("# A\n\n## B\n", ""),
    ],
)
def test_a_page_is_summed_up_by_its_first_sentence(text: str, sentence: str) -> None:
    assert summary(text) == sentence


def test_llms_txt_lists_the_pages_for_users_and_contributors(pages: Path) -> None:
    text = llms_text(pages)

    assert text.startswith("# Partita\n\n> ")
    assert "\n## How-to\n" in text
    assert "\n## Contributing\n" in text
    assert "- [Your first suite](guides/first-suite.md): In 20 minutes you write a suite" in text


def test_a_theme_with_another_script_stops_the_build() -> None:
    with pytest.raises(SiteError, match="0 places for the change: the search box"):
        changed_script("function other() {}")


def test_a_dead_link_stops_the_build(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "index.md").write_text("# Home\n\n[gone](gone.md)\n")
    (tmp_path / "zensical.toml").write_text(
        '[project]\nsite_name = "x"\ndocs_dir = "pages"\nsite_dir = "html"\n'
    )

    with pytest.raises(SiteError, match="page does not exist"):
        run_zensical(tmp_path)


@pytest.mark.slow
def test_the_site_is_built_whole(tmp_path: Path) -> None:
    site = build(tmp_path)

    html = [path.read_text() for path in site.rglob("*.html")]
    assert len(html) > 40
    assert [
        text for text in html if "<script>" in text or "<style" in text or ' style="' in text
    ] == []
    assert [path for path in site.rglob("*.html") if not path.with_suffix(".md").is_file()] == []
    assert (site / "search.json").stat().st_size > 100_000
    assert '"decisions/0001' not in (site / "search.json").read_text()
    assert (site / "decisions" / "0001-apps-by-aggregate.md").read_text().startswith("# ")
    assert not [
        text for text in html if 'src="http' in text or 'rel="stylesheet" href="http' in text
    ]
