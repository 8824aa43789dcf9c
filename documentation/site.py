"""Build the site: `python -m documentation.site [--out FOLDER]`.

Zensical makes HTML of the pages. Afterwards inline scripts become files, so that the server's
content security policy holds for the site as for every page; each page gets its Markdown beside
it, llms.txt lists them, and every link and anchor of the built pages is followed.
"""

from __future__ import annotations

import argparse
import hashlib
import html
import os
import re
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from documentation.pages import NO_SEARCH, ROOT, DeadLink, nav_pages, title, write_pages

CONFIGURATION: Final = ROOT / "documentation" / "zensical.toml"
STYLE: Final = ROOT / "documentation" / "site.css"
WORK: Final = ROOT / ".cache" / "site"
BUILD_TIMEOUT_S: Final = 300
_INLINE_SCRIPT: Final = re.compile(r"<script>(.*?)</script>", re.DOTALL)
# What the theme's script does, and what it does here: (pattern, replacement, why).
_SCRIPT_CHANGES: Final = (
    (
        r'(\w+)\.appendChild\(\w+\("style",\{\},(\w+)\.toString\(\)\)\)',
        r"(()=>{let s=new CSSStyleSheet;s.replaceSync(\2.toString());\1.adoptedStyleSheets=[s]})()",
        "the search box has an inline style, which the content security policy refuses",
    ),
    (
        r'class:"md-typeset__scrollwrap"\}',
        r'class:"md-typeset__scrollwrap",tabindex:"0"}',
        "a table that is too wide scrolls, which the keyboard must reach",
    ),
)
_SUMMARY: Final = re.compile(r"\A# .+\n+((?:(?!```)[^#|<\n\d-][^\n]*\n?)+)", re.MULTILINE)


class SiteError(RuntimeError):
    """The site cannot be built, or a built page has a dead link."""


def build(work: Path = WORK) -> Path:
    """Build the site in `work` and return its folder; raises SiteError with what to mend."""
    work.mkdir(parents=True, exist_ok=True)
    try:
        pages = write_pages(work / "pages")
    except DeadLink as error:
        raise SiteError(str(error)) from None
    shutil.copyfile(CONFIGURATION, work / "zensical.toml")
    (work / "pages" / "assets").mkdir(exist_ok=True)
    shutil.copyfile(STYLE, work / "pages" / "assets" / STYLE.name)
    run_zensical(work)
    site = work / "html"
    for page in pages:
        text = (work / "pages" / page).read_text(encoding="utf-8")
        (site / page).write_text(text.removeprefix(NO_SEARCH), encoding="utf-8")
    scripts: dict[str, str] = {}
    for path in sorted(site.rglob("*.html")):
        path.write_text(page_html(path, site, scripts), encoding="utf-8")
    for name, script in scripts.items():
        (site / name).write_text(script, encoding="utf-8")
    for path in (site / "assets" / "javascripts").glob("bundle.*.js"):
        path.write_text(changed_script(path.read_text(encoding="utf-8")), encoding="utf-8")
    (site / "404.html").unlink(missing_ok=True)  # the server has its own page
    (site / "llms.txt").write_text(llms_text(work / "pages"), encoding="utf-8")
    if dead := dead_links(site):
        raise SiteError("\n".join(dead))
    return site


def run_zensical(work: Path) -> None:
    """Run the strict build; raises SiteError with its warnings."""
    shutil.rmtree(work / "html", ignore_errors=True)
    program = Path(sys.executable).with_name("zensical")
    if not program.exists():
        raise SiteError("zensical is not installed; `make docs` installs it into .venv")
    made = subprocess.run(
        [program, "build", "--strict", "--clean", "-f", "zensical.toml"],
        cwd=work, capture_output=True, text=True, check=False, timeout=BUILD_TIMEOUT_S,
    )  # fmt: skip
    if made.returncode:
        said = made.stdout + made.stderr.partition("Traceback")[0]
        raise SiteError(re.sub(r"\x1b\[[0-9;]*m", "", said))


def changed_script(text: str) -> str:
    """Return the theme's script as the site needs it; raises SiteError if there is another one."""
    for pattern, replacement, why in _SCRIPT_CHANGES:
        text, count = re.subn(pattern, replacement, text)
        if count != 1:
            raise SiteError(
                f"the script of this release of Zensical has {count} places for the change: {why}; "
                "mend _SCRIPT_CHANGES in documentation/site.py, or pin the release before"
            )
    return text


def page_html(path: Path, site: Path, scripts: dict[str, str]) -> str:
    """Return the page without inline scripts; add each to `scripts` under its file's name."""
    to_root = os.path.relpath(site, path.parent)

    def script_file(match: re.Match[str]) -> str:
        digest = hashlib.sha256(match[1].encode()).hexdigest()[:16]
        name = f"assets/javascripts/page-{digest}.js"
        scripts[name] = match[1]
        return f'<script src="{to_root}/{name}"></script>'

    text = _INLINE_SCRIPT.sub(script_file, path.read_text(encoding="utf-8"))
    markdown = f'<link rel="alternate" type="text/markdown" href="{path.stem}.md">'
    return text.replace("</head>", f"{markdown}</head>", 1)


def llms_text(pages: Path) -> str:
    """Return llms.txt: each page of the navigation with its first paragraph (llmstxt.org)."""
    project = tomllib.loads(CONFIGURATION.read_text(encoding="utf-8"))["project"]
    parts = [f"# {project['site_name']}\n\n> {project['site_description']}\n"]
    last = ""
    for part, page in nav_pages(project["nav"]):
        if part != last:
            parts.append(f"\n## {part}\n\n")
            last = part
        text = (pages / page).read_text(encoding="utf-8").removeprefix(NO_SEARCH)
        parts.append(f"- [{plain(title(text))}]({page}){summary(text)}\n")
    return "".join(parts)


def summary(text: str) -> str:
    """Return ": " and the first sentence below the title, empty where no prose stands there."""
    match = _SUMMARY.search(text)
    if not match:
        return ""
    sentence = re.split(r"(?<=[.]) ", plain(" ".join(match[1].split())))[0]
    return f": {sentence.rstrip('.:;')}"


def plain(markdown: str) -> str:
    """Return a line of Markdown without links and emphasis."""
    return re.sub(r"\*\*|`", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown))


class _Targets(HTMLParser):
    """Collects the ids of a page and the addresses that it refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.ids.add(value)
            elif name in ("href", "src") and value is not None:
                self.addresses.append(html.unescape(value))


def dead_links(site: Path) -> list[str]:
    """Return each reference of a built page to a file or an anchor that the site has not."""
    pages = {}
    for path in sorted(site.rglob("*.html")):
        pages[path] = _Targets()
        pages[path].feed(path.read_text(encoding="utf-8"))
    dead = []
    for path, page in pages.items():
        for address in page.addresses:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            wanted = unquote(parts.fragment)
            has_anchor = not wanted or target not in pages or wanted in pages[target].ids
            if not target.is_file() or not has_anchor:
                dead.append(f"{path.relative_to(site)}: {address} leads nowhere")
    return dead


def main() -> int:
    """Build the site and put it where the server looks; print what is wrong otherwise."""
    parser = argparse.ArgumentParser(prog="make docs", description="Build the documentation site.")
    parser.add_argument("--out", type=Path, help="where to put it; without it, it is only built")
    out = parser.parse_args().out
    try:
        site = build()
    except (SiteError, subprocess.TimeoutExpired) as error:
        print(error, file=sys.stderr)
        return 1
    if out:
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(site, out)
    count = len(list(site.rglob("*.html")))
    print(f"{count} pages{f', in {out}' if out else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
