"""Static files, served from the source tree: there is no copy to make before a start."""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from django.contrib.staticfiles import finders
from django.core.exceptions import SuspiciousFileOperation
from django.http import Http404, HttpRequest, HttpResponse

from apps.http.responses import is_not_modified, read_only

_CACHE_CONTROL = "public, no-cache"  # asked for again by its tag: an upgrade shows at once


@dataclass(frozen=True, slots=True)
class StaticFile:
    content: bytes
    media_type: str
    etag: str


@read_only
async def static_file(request: HttpRequest, path: str) -> HttpResponse:
    file = await asyncio.to_thread(_find, path)
    if file is None:
        raise Http404
    headers = {"ETag": file.etag, "Cache-Control": _CACHE_CONTROL}
    if is_not_modified(file.etag, request.headers.get("If-None-Match", "")):
        return HttpResponse(status=304, headers=headers)
    return HttpResponse(file.content, content_type=file.media_type, headers=headers)


def _find(path: str) -> StaticFile | None:
    """None for what no finder knows, folders and paths that leave their folder included."""
    try:
        found = finders.find(path)
    except (SuspiciousFileOperation, ValueError):
        return None
    if not isinstance(found, str) or not Path(found).is_file():
        return None
    return _read(found, Path(found).stat().st_mtime_ns)


@lru_cache(maxsize=256)
def _read(location: str, _changed_ns: int) -> StaticFile:
    content = Path(location).read_bytes()
    media_type = mimetypes.guess_type(location)[0] or "application/octet-stream"
    charset = (
        "; charset=utf-8" if media_type.startswith(("text/", "application/javascript")) else ""
    )
    return StaticFile(
        content, media_type + charset, f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    )
