"""Markdown as safe HTML: CommonMark with tables, no HTML of its own, no images, links checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token

from kernel.ids import slug

MAX_TEXT: Final = 32 * 2**10  # characters; the rest is left to the source view
SHIFT: Final = 2  # a README's h1 stands under the h2 of its panel
_DEEPEST: Final = 6
_TAGS: Final = frozenset(
    {"a", "blockquote", "br", "code", "del", "em", "hr", "li", "ol", "p", "pre", "s", "span"}
    | {"strong", "table", "tbody", "td", "th", "thead", "tr", "ul", "h3", "h4", "h5", "h6"}
)
_ATTRIBUTES: Final = {
    "a": {"href"},
    "ol": {"start"},
    **{f"h{level}": {"id"} for level in range(3, _DEEPEST + 1)},
}
_SCHEMES: Final = frozenset({"http", "https", "mailto"})
_CONTROLS: Final = re.compile(r"[\x00-\x20\x7f]")
FileLink = Callable[[str], str]


def no_file(_path: str) -> str:
    """Lead nowhere: for texts that are in no package."""
    return ""


def markdown_html(text: str, file_link: FileLink = no_file) -> str:
    """Return the HTML of a README or a description.

    `file_link` returns the address of a file of the package by its path there, "" if there is none.
    Images are shown as links, so that no page loads anything from elsewhere.
    """
    parser = _parser()
    tokens = parser.parse(text[:MAX_TEXT])
    _rewrite(tokens, file_link)
    html = parser.renderer.render(tokens, parser.options, {})
    return nh3.clean(
        html,
        tags=set(_TAGS),
        attributes=_ATTRIBUTES,
        url_schemes=set(_SCHEMES),
        link_rel="noopener noreferrer nofollow",
    )


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False, "maxNesting": 20}).enable(
        ["table", "strikethrough"]
    )


def _rewrite(tokens: Sequence[Token], file_link: FileLink) -> None:
    """Shift headings, give them ids, and check links and images."""
    taken: set[str] = set()
    for index, token in enumerate(tokens):
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1:]) + SHIFT, _DEEPEST)}"
        if token.type == "heading_open":
            name = f"readme-{slug(tokens[index + 1].content)}"
            if name not in taken:
                taken.add(name)
                token.attrSet("id", name)
        if token.children:
            token.children = _inline(token.children, file_link)


def _inline(tokens: Sequence[Token], file_link: FileLink) -> list[Token]:
    made: list[Token] = []
    in_link = False
    for token in tokens:
        if token.type == "image":
            made += _image(token, file_link, in_link=in_link)
            continue
        if token.type == "link_open":
            in_link = True
            href = _address(_attribute(token, "href"), file_link)
            token.attrs = {"href": href} if href else {}
        elif token.type == "link_close":
            in_link = False
        made.append(token)
    return made


def _image(token: Token, file_link: FileLink, *, in_link: bool) -> list[Token]:
    """Return the alternative text, as a link to the image unless it is in a link."""
    text = Token("text", "", 0, content=token.content or "image")
    href = _address(_attribute(token, "src"), file_link)
    if in_link or not href:
        return [text]
    return [Token("link_open", "a", 1, attrs={"href": href}), text, Token("link_close", "a", -1)]


def _attribute(token: Token, name: str) -> str:
    value: Any = token.attrGet(name)
    return value if isinstance(value, str) else ""


def _address(href: str, file_link: FileLink) -> str:
    """Return the address of a link on the page; "" for one that leads nowhere."""
    try:
        parts = urlsplit(href)
    except ValueError:
        return ""
    if _CONTROLS.search(href) or (parts.scheme and parts.scheme not in _SCHEMES):
        return ""
    if parts.scheme or parts.netloc:
        return href if parts.scheme else f"https:{href}"
    if parts.path:
        return file_link(parts.path)
    return f"#readme-{slug(parts.fragment)}" if parts.fragment else ""
