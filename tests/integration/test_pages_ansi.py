"""Terminal text in the log: colours become styles, every other escape goes, nothing is markup."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.support.processes import ROOT

pytestmark = pytest.mark.browser
MODULE = ROOT / "static" / "console" / "js" / "ansi.js"
ESC = "\x1b"


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    page.goto("about:blank")
    page.evaluate(
        "async text => { window.ansi = await import("
        "URL.createObjectURL(new Blob([text], {type: 'text/javascript'}))); }",
        MODULE.read_text(),
    )
    yield page
    page.close()


def spans(page: Page, line: str) -> Any:
    return page.evaluate(
        "line => ansi.parse(line).map(({text, flags, fg, bg}) => ({text, flags: [...flags],"
        " ...(fg !== undefined && {fg}), ...(bg !== undefined && {bg})}))",
        line,
    )


def plain(page: Page, line: str) -> Any:
    return page.evaluate("line => ansi.plain(line)", line)


@pytest.mark.parametrize(
    ("codes", "style"),
    [
        ("31", {"fg": 1}),
        ("97", {"fg": 15}),
        ("44", {"bg": 4}),
        ("103", {"bg": 11}),
        ("38;5;9", {"fg": 9}),
        ("38;5;208", {"fg": "#ff8700"}),
        ("48;5;244", {"bg": "#808080"}),
        ("38;2;1;2;3", {"fg": "#010203"}),
        ("48;2;999;0;10", {"bg": "#ff000a"}),
        ("1;4;31", {"flags": ["bold", "underline"], "fg": 1}),
        ("31;0", {}),
        ("1;22", {}),
        ("38;5", {"fg": 0}),
        ("38;7;1", {}),
        ("12345", {}),
    ],
)
def test_sgr_codes_become_styles(page: Page, codes: str, style: dict[str, Any]):
    assert spans(page, f"{ESC}[{codes}mx") == [{"text": "x", "flags": []} | style]


def test_a_reset_ends_every_style(page: Page):
    line = f"a{ESC}[1;31mb{ESC}[mc"

    assert spans(page, line) == [
        {"text": "a", "flags": []},
        {"text": "b", "flags": ["bold"], "fg": 1},
        {"text": "c", "flags": []},
    ]


@pytest.mark.parametrize(
    "escape",
    [
        f"{ESC}[2J",
        f"{ESC}[10;20H",
        f"{ESC}[?25l",
        f"{ESC}[>4;2m",
        f"{ESC}[ q",
        f"{ESC}]0;title\x07",
        f"{ESC}]8;;http://evil/{ESC}\\",
        f"{ESC}P1$r{ESC}\\",
        f"{ESC}_x{ESC}\\",
        f"{ESC}(B",
        f"{ESC}c",
        f"{ESC}7",
        "\x9b31m",
        "\x07\x08\x00\x7f",
    ],
)
def test_other_escapes_and_controls_are_stripped(page: Page, escape: str):
    assert plain(page, f"a{escape}b") == "ab"


def test_an_escape_that_never_ends_hides_nothing_behind_the_line(page: Page):
    assert plain(page, f"a{ESC}[31") == "a31" or plain(page, f"a{ESC}[31") == "a"
    assert plain(page, f"a{ESC}]0;never") == "a"
    assert plain(page, f"a{ESC}") == "a"


def test_a_progress_line_shows_what_a_terminal_would_leave(page: Page):
    assert plain(page, "10 %\r50 %\r100 %") == "100 %"
    assert plain(page, "done\r") == "done"


def test_marks_that_turn_the_direction_of_text_are_made_visible(page: Page):
    assert plain(page, "a\u202eb\u2066c") == "a\ufffdb\ufffdc"


def test_a_line_is_never_markup(page: Page):
    html = page.evaluate(
        "line => { const box = document.createElement('p'); ansi.render(box, line);"
        " return box.innerHTML; }",
        f'<img src=x onerror=alert(1)> {ESC}[38;2;1;2;3m<b>{ESC}[0m"&',
    )

    assert "<img" not in html
    assert "<b>" not in html
    assert html.count("<span") == 1


@pytest.mark.timed
def test_a_long_hostile_line_is_read_in_linear_time(page: Page):
    line = f"{ESC}[" * 8000 + f"{ESC}]" * 8000 + "31m" * 8000

    took_ms = page.evaluate(
        "line => { const from = performance.now(); ansi.parse(line); ansi.parse(line);"
        " return performance.now() - from; }",
        line,
    )

    assert took_ms < 500
