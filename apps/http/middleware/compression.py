"""Compression of responses by gzip (reference: control-plane 2; decision 0024)."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing
from typing import Any, Final

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from django.utils.text import compress_string

from apps.http.middleware.base import AsyncMiddleware

SMALLEST_BYTES: Final = 1024  # below this, the headers are most of the response
_ON_LOOP_BYTES: Final = 32 * 1024  # more is compressed on a thread
_PADDING_BYTES: Final = 100  # of random length, in the header of gzip, against BREACH
_STREAM_LEVEL: Final = 4
_GZIP_WINDOW: Final = 16 + 13  # gzip's format with a window of 8 KiB: 1,000 followers need 40 MiB
_STREAM_MEMORY: Final = 6
_SUFFIX: Final = '-gzip"'
_CONDITIONS: Final = ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH")
_COMPRESSIBLE: Final = re.compile(
    r"text/|image/svg\+xml|application/(?:[a-z.-]+\+)?(?:json|xml)\b"
    r"|application/(?:javascript|x-ndjson)\b"
)
_GZIP: Final = re.compile(r"(?:^|,)\s*(gzip|\*)\s*(?:;\s*q=([0-9.]+)\s*)?(?=,|$)", re.IGNORECASE)


class CompressionMiddleware(AsyncMiddleware):
    """Compresses text for clients that accept gzip; flushes streams after each piece.

    A compressed response has an entity tag of its own, `"…-gzip"`, which the views see without the
    suffix. What has an encoding or ranges (an artifact) is sent as it is.
    """

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        asked_for_gzip = _remove_suffix(request)
        response = await self.get_response(request)
        if not _is_compressible(response):
            return response
        patch_vary_headers(response, ["Accept-Encoding"])
        if response.status_code == 304:  # noqa: PLR2004
            if asked_for_gzip:
                _mark_tag(response)
        elif accepts_gzip(request.headers.get("Accept-Encoding", "")):
            await _compress(response)
        return response


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether the header of a request names gzip, or `*`, with a weight above zero."""
    found = {name.lower(): weight for name, weight in _GZIP.findall(accept_encoding)}
    weight = found.get("gzip", found.get("*", "0"))
    return weight.strip("0.") != "" if weight else True


def _remove_suffix(request: HttpRequest) -> bool:
    """Show the views the tags of conditions without their suffix; return whether one had it."""
    found = False
    for name in _CONDITIONS:
        given = str(request.META.get(name, ""))
        if _SUFFIX in given:
            request.META[name] = given.replace(_SUFFIX, '"')
            vars(request).pop("headers", None)  # a cached copy
            found = True
    return found


def _is_compressible(response: HttpResponseBase) -> bool:
    headers = response.headers
    if {"Content-Encoding", "Content-Range", "Accept-Ranges"} & set(headers):
        return False
    return response.status_code == 304 or bool(  # noqa: PLR2004
        _COMPRESSIBLE.match(headers.get("Content-Type", ""))
    )


def _mark_tag(response: HttpResponseBase) -> None:
    tag = response.headers.get("ETag", "")
    if tag.endswith('"'):
        response["ETag"] = tag[:-1] + _SUFFIX


async def _compress(response: HttpResponseBase) -> None:
    if isinstance(response, StreamingHttpResponse):
        if not response.is_async:
            return
        pieces: Any = vars(response)["_iterator"]  # Django's property wraps it once more
        response.streaming_content = compress_pieces(pieces)
        del response["Content-Length"]
    else:
        assert isinstance(response, HttpResponse)
        content = response.content
        if len(content) < SMALLEST_BYTES:
            return
        smaller = (
            compress_string(content, max_random_bytes=_PADDING_BYTES)
            if len(content) <= _ON_LOOP_BYTES
            else await asyncio.to_thread(compress_string, content, max_random_bytes=_PADDING_BYTES)
        )
        if len(smaller) >= len(content):
            return
        response.content = smaller
        response["Content-Length"] = str(len(smaller))
    response["Content-Encoding"] = "gzip"
    _mark_tag(response)


async def compress_pieces(pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
    """Yield each piece compressed and flushed: a client can decode it at once."""
    gzip = zlib.compressobj(_STREAM_LEVEL, zlib.DEFLATED, _GZIP_WINDOW, _STREAM_MEMORY)
    if isinstance(pieces, AsyncGenerator):
        async with aclosing(pieces):
            async for piece in pieces:
                yield gzip.compress(piece) + gzip.flush(zlib.Z_SYNC_FLUSH)
    else:
        async for piece in pieces:
            yield gzip.compress(piece) + gzip.flush(zlib.Z_SYNC_FLUSH)
    yield gzip.flush()
