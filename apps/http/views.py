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
from apps.http.static_files import split_version, static_version

_REVALIDATED = "public, no-cache"  # asked for again by its tag: an upgrade shows at once
_IMMUTABLE = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class StaticFile:
    content: bytes
    media_type: str
    etag: str
    changed_at: float


@read_only
async def static_file(request: HttpRequest, path: str) -> HttpResponse:
    """Serve a file; forever fresh below the current version, unless it changed since the start."""
    version, path = split_version(path)
    file = await asyncio.to_thread(_find, path)
    if file is None:
        raise Http404
    current = static_version()
    is_current = version == current.digest and file.changed_at <= current.read_at
    headers = {
        "ETag": file.etag,
        "Cache-Control": _IMMUTABLE if is_current else _REVALIDATED,
    }
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
def _read(location: str, changed_ns: int) -> StaticFile:
    content = Path(location).read_bytes()
    media_type = mimetypes.guess_type(location)[0] or "application/octet-stream"
    charset = (
        "; charset=utf-8" if media_type.startswith(("text/", "application/javascript")) else ""
    )
    digest = hashlib.sha256(content).hexdigest()[:32]
    return StaticFile(content, media_type + charset, f'"{digest}"', changed_ns / 1e9)
