"""Static files, served from the source tree, and the documentation site, as it was built."""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from django.contrib.staticfiles import finders
from django.core.exceptions import SuspiciousFileOperation
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils._os import safe_join
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from apps.http import conf
from apps.http.responses import is_not_modified, read_only
from apps.http.static_files import split_version, static_version
from kernel.errors import NotFound

_REVALIDATED = "public, no-cache"  # asked for again by its tag: an upgrade shows at once
_IMMUTABLE = "public, max-age=31536000, immutable"

_MEDIA_TYPES = {".md": "text/markdown", ".sse": "text/plain"}  # unknown to some systems


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
    return _answer(request, file, headers)


def _answer(request: HttpRequest, file: StaticFile, headers: dict[str, str]) -> HttpResponse:
    if is_not_modified(file.etag, request.headers.get("If-None-Match", "")):
        return HttpResponse(status=304, headers=headers)
    return HttpResponse(file.content, content_type=file.media_type, headers=headers)


@csrf_exempt  # other methods get 405
@require_safe
async def documentation(request: HttpRequest, path: str = "") -> HttpResponse:
    """Serve a file of the documentation site, to anybody: it holds nothing of the installation.

    Raises NotFound, which says how to build the site where that was not done.
    """
    if not request.path.endswith("/") and not path:
        return HttpResponseRedirect(f"{request.path}/")
    file = await asyncio.to_thread(_find_documentation, conf.documentation_folder(), path)
    return _answer(request, file, {"ETag": file.etag, "Cache-Control": _REVALIDATED})


def _find_documentation(folder: Path, path: str) -> StaticFile:
    if not conf.has_documentation():
        raise NotFound(
            "the documentation was not built: run `make docs` in the checkout that the server "
            "runs from; the wheel of a release has it built in"
        )
    unknown = NotFound("the documentation has no such page; search it from /docs/")
    try:
        found = Path(safe_join(folder, path))
        found = found / "index.html" if path.endswith("/") or not path else found
        changed_ns = found.stat().st_mtime_ns
    except (OSError, SuspiciousFileOperation, ValueError) as error:  # no file has this name
        raise unknown from error
    if not found.is_file():
        raise unknown
    return _read(str(found), changed_ns)


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
    guessed = _MEDIA_TYPES.get(Path(location).suffix) or mimetypes.guess_type(location)[0]
    media_type = guessed or "application/octet-stream"
    charset = (
        "; charset=utf-8" if media_type.startswith(("text/", "application/javascript")) else ""
    )
    digest = hashlib.sha256(content).hexdigest()[:32]
    return StaticFile(content, media_type + charset, f'"{digest}"', changed_ns / 1e9)
