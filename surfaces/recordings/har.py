"""Calls of a HAR file (HTTP Archive 1.2), as browsers and proxies save them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from surfaces.recordings.calls import (
    RecordedCall,
    Recording,
    header,
    list_at,
    pairs_at,
    split_url,
    text_at,
)

_STATIC: Final = ("image/", "font/", "video/", "audio/", "text/css", "text/html")
_SCRIPTS: Final = ("javascript", "ecmascript", "wasm", "font")


def is_har(document: Any) -> bool:
    log = document.get("log") if isinstance(document, dict) else None
    return isinstance(log, dict) and isinstance(log.get("entries"), list)


def calls_of_har(document: Any) -> Recording:
    """Return the calls of APIs; pages, pictures and scripts are left out."""
    made = Recording()
    for entry in list_at(document.get("log"), "entries"):
        if isinstance(entry, dict):
            _add(entry, made)
    return made


def _add(entry: Mapping[str, object], made: Recording) -> None:
    request, response = entry.get("request"), entry.get("response")
    method = text_at(request, "method").upper()
    status = response.get("status") if isinstance(response, dict) else None
    if not method.isalpha() or not isinstance(status, int) or not 100 <= status <= 599:  # noqa: PLR2004
        made.left_out["without an answer"] += 1
        return
    content = response.get("content") if isinstance(response, dict) else None
    media_type = text_at(content, "mimeType")
    if method == "OPTIONS" or is_static(media_type):
        made.left_out["a page, a picture, a script or a CORS preflight"] += 1
        return
    body = _text(content)
    if body is None:
        made.left_out["the answer is not text"] += 1
        return
    host, path, query = split_url(text_at(request, "url"))
    headers = pairs_at(response, "headers", "name")
    if media_type and not header(headers, "content-type"):
        headers = (*headers, ("Content-Type", media_type))
    made.add(
        RecordedCall(
            method=method,
            path=path,
            status=status,
            surface=host,
            query=query,
            request_headers=pairs_at(request, "headers", "name"),
            request_body=_request_body(request),
            response_headers=headers,
            response_body=body,
        )
    )


def is_static(media_type: str) -> bool:
    """Return whether a media type is that of a page or what belongs to one."""
    kind = media_type.lower()
    return kind.startswith(_STATIC) or any(word in kind for word in _SCRIPTS)


def _request_body(request: Any) -> str:
    data = request.get("postData") if isinstance(request, dict) else None
    return text_at(data, "text") or urlencode(pairs_at(data, "params", "name"))


def _text(content: Any) -> str | None:
    text = text_at(content, "text")
    if text_at(content, "encoding") != "base64":
        return text
    try:
        return base64.b64decode(text, validate=False).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
