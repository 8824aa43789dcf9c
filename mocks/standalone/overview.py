"""`/` of `mock serve`: its surfaces and operations, as JSON for programs and a page for browsers.

(reference: control-plane 18.9)
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final
from urllib.parse import urlsplit

from mocks.negotiation.accept import best_media_type
from mocks.plane import http_responses
from mocks.plane.http_exchange import HttpExchange
from mocks.standalone.own_routes import OwnRoute
from mocks.standalone.served_suite import ServedSuite
from surfaces.model import Operation, Surface

PATH: Final = "/"
_OK: Final = 200
_HTML, _JSON = "text/html", "application/json"
_VARY: Final = (b"vary", b"Accept")
_PAGE_HEADERS: Final = [
    (b"content-type", b"text/html; charset=utf-8"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
    (b"x-content-type-options", b"nosniff"),
    _VARY,
]
_STYLE: Final = (
    "body{font:16px/1.5 sans-serif;margin:2rem;max-width:70rem}"
    "code{font-size:14px;overflow-wrap:anywhere}li{margin:.4rem 0}"
)


class Overview(OwnRoute):
    methods = ("GET", "HEAD")

    def __init__(self, served: ServedSuite) -> None:
        self._served = served

    async def answer(self, exchange: HttpExchange) -> None:
        if prefers_html(exchange.given.get(b"accept", b"").decode("latin-1")):
            body = "\n".join(_page(self._served)).encode()
            length = (b"content-length", b"%d" % len(body))
            await exchange.reply(_OK, [*_PAGE_HEADERS, length], body)
        else:
            await exchange.reply(*http_responses.document([_VARY], _document(self._served)))


def prefers_html(accept: str) -> bool:
    """Return whether an Accept header names HTML, and JSON not before it."""
    return best_media_type(accept, (_JSON, _HTML)) == _HTML


def _document(served: ServedSuite) -> dict[str, object]:
    content = served.reading.content
    return {
        "suiteId": content.suite_id,
        "title": content.title,
        "operations": served.reading.operations,
        "surfaces": [
            {
                "id": surface.surface_id,
                "title": surface.title,
                "protocol": surface.protocol,
                "url": surface.mock_host,
                "operations": [
                    {
                        "id": operation.operation_id,
                        "method": operation.method,
                        "path": operation.path,
                        "summary": operation.summary,
                        "url": operation.mock_url,
                        "curl": operation.curl_command,
                    }
                    for operation in surface.operations
                ],
            }
            for surface in content.surfaces
        ],
        "warnings": [each.as_dict() for each in served.reading.warnings],
    }


def _page(served: ServedSuite) -> Iterator[str]:
    content = served.reading.content
    title = escape(content.title)
    yield "<!doctype html>"
    yield f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
    yield '<meta name="viewport" content="width=device-width">'
    yield '<meta name="color-scheme" content="light dark">'
    yield f"<style>{_STYLE}</style></head><body><h1>{title}</h1>"
    for surface in content.surfaces:
        yield from _section(surface)
    if served.reading.warnings:
        yield "<h2>Warnings</h2><ul>"
        for each in served.reading.warnings:
            yield f"<li>{escape(each.place())} {escape(each.detail)}</li>"
        yield "</ul>"
    yield "</body></html>"


def _section(surface: Surface) -> Iterator[str]:
    yield f"<h2>{escape(surface.title)}</h2><p><code>{escape(surface.mock_host)}</code></p><ul>"
    for operation in surface.operations:
        yield f"<li>{_heading(operation)}<br><code>{escape(operation.curl_command)}</code></li>"
    yield "</ul>"


def _heading(operation: Operation) -> str:
    """Return what an operation is called; a link where a browser can call it as it stands."""
    called = f"<b>{escape(operation.method)}</b> {escape(operation.path)}"
    if operation.method == "GET" and "{" not in operation.mock_url:
        called = f'<a href="{escape(urlsplit(operation.mock_url).path)}">{called}</a>'
    return f"{called} {escape(operation.summary or operation.operation_id)}"
