"""Markdown of suites, such as README.md, as HTML that is safe to show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

MAX_CHARACTERS: Final = 65_536
HEADING_SHIFT: Final = 2  # below the headings of the page and of the section around it
_TAGS: Final = frozenset(
    {
        *("p", "br", "hr", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code"),
        *("em", "strong", "s", "a", "table", "thead", "tbody", "tr", "th", "td"),
    }
)
_ATTRIBUTES: Final = {"a": {"href", "title"}, "ol": {"start"}}
_SCHEMES: Final = frozenset({"http", "https", "mailto"})
_TABLE: Final = '<div class="table-scroll"><table>'


def rendered(text: str) -> SafeString:
    """Return the HTML of at most MAX_CHARACTERS of Markdown.

    HTML in the text stays text. Images become their descriptions: pages load nothing from
    elsewhere. Links lead to http, https and mailto addresses; others become their texts.
    """
    html = _markdown().render(text[:MAX_CHARACTERS])
    clean = nh3.clean(
        html,
        tags=set(_TAGS),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        url_schemes=set(_SCHEMES),
        link_rel="noopener noreferrer nofollow",
    )
    return mark_safe(clean.replace("<table>", _TABLE).replace("</table>", "</table></div>"))  # noqa: S308 - cleaned


def _markdown() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.add_render_rule("heading_open", _heading)
    parser.add_render_rule("heading_close", _heading)
    parser.add_render_rule("image", _image)
    parser.add_render_rule("link_open", _link)
    return parser


def _heading(renderer: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    level = min(6, int(tokens[at].tag[1:]) + HEADING_SHIFT)
    return f"</h{level}>\n" if tokens[at].nesting < 0 else f"<h{level}>"


def _image(renderer: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    described: str = renderer.renderInlineAsText(tokens[at].children or [], options, env)
    return nh3.clean_text(described)


def _link(renderer: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    """Drop the address of a link to a file of the package or within the text."""
    token = tokens[at]
    if str(token.attrGet("href") or "").partition(":")[0].lower() not in _SCHEMES:
        token.attrs.pop("href", None)
    opened: str = renderer.renderToken(tokens, at, options, env)
    return opened
