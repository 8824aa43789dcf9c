"""The streams of runs, their logs as a file, and both in the OpenAPI.

Plain asynchronous views: they hold no thread and no connection to the store while they send.

(reference: control-plane 11.1, 12)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import Any, Final, TypeVar
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import close_old_connections, connection
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header
from django.views.decorators.csrf import csrf_exempt

from apps.accounts.api import (
    Principal,
    authenticate_stream,
    recheck,
    require_principal,
    visible_workspaces,
)
from apps.executions import api
from apps.executions.domain.events import OVERVIEW_NUDGE, events_topic, logs_topic, probes_nudge
from apps.executions.domain.repeats import repeat_topic
from apps.executions.rest.artifact_responses import HARMLESS
from apps.executions.rest.parameters import text, texts
from apps.executions.selectors import artifact_files
from apps.executions.selectors.detail import event_envelope, log_envelope
from apps.executions.selectors.logs import log_pages
from apps.executions.selectors.overview import OverviewTaker
from apps.executions.selectors.probes import ProbesTaker
from apps.executions.selectors.repeats import repeat_envelope
from apps.http.rest import InvalidParameter, Schema, refuse_unknown_parameters
from apps.streams import api as streams

T = TypeVar("T")
View = Callable[..., Any]
_MEDIA_TYPES: Final = {"txt": "text/plain; charset=utf-8", "ndjson": "application/x-ndjson"}
_METHODS: Final = ("GET", "HEAD", "OPTIONS")
_PROBES_POLL_S: Final = 5.0  # a lost nudge, or the end of the run, is seen by then
_PIECE_BYTES: Final = 256 * 2**10
_readers = ThreadPoolExecutor(2, thread_name_prefix="log-download")


def only_get(view: View) -> View:
    """Let GET and HEAD through; respond to OPTIONS with the methods, to others with 405.

    A response to HEAD has the headers of GET; the exception middleware sends none of its stream.
    """

    @csrf_exempt  # other methods get 405
    @wraps(view)
    async def wrapper(request: HttpRequest, **path: str) -> HttpResponseBase:
        if request.method == "OPTIONS":
            return HttpResponse(status=204, headers={"Allow": ", ".join(_METHODS)})
        if request.method not in _METHODS:
            return HttpResponseNotAllowed(_METHODS)
        response: HttpResponseBase = await view(request, **path)
        return response

    return wrapper


@only_get
async def events(request: HttpRequest, **path: str) -> HttpResponseBase:
    """Stream the events of a run."""
    run_id = path["executionId"]
    after, principal = await on_request_thread(
        lambda: _authorize(request, run_id, {"since", "token"})
    )
    return await stream_response(
        request, event_frames(run_id, after), principal, "execution-events"
    )


@only_get
async def logs(request: HttpRequest, **path: str) -> HttpResponseBase:
    """Stream the log lines of a run."""
    run_id = path["executionId"]
    after, principal = await on_request_thread(
        lambda: _authorize(request, run_id, {"since", "token", "source"})
    )
    frames = log_frames(run_id, after, texts(request.GET, "source"))
    return await stream_response(request, frames, principal, "execution-logs")


@only_get
async def probes(request: HttpRequest, **path: str) -> HttpResponseBase:
    """Stream what the services of a run wait for that are not ready, whenever it has changed."""
    run_id = path["executionId"]
    _, principal = await on_request_thread(lambda: _authorize(request, run_id, {"token"}))
    return await stream_response(request, probe_frames(run_id), principal, "execution-probes")


@only_get
async def overview(request: HttpRequest) -> HttpResponseBase:
    """Stream the engine overview, again whenever it has changed."""
    workspaces, principal = await on_request_thread(lambda: _admit_to_overview(request))
    return await stream_response(request, overview_frames(workspaces), principal, "overview")


def event_frames(run_id: str, after: int) -> AsyncGenerator[bytes]:
    """Return the frames of the events of a run, which the caller may see."""
    return streams.follow(
        events_topic(run_id), after=after, member="event", envelope=event_envelope
    )


def log_frames(run_id: str, after: int, sources: Collection[str]) -> AsyncGenerator[bytes]:
    """Return the frames of the log of a run, which the caller may see."""
    return streams.follow(
        logs_topic(run_id),
        after=after,
        member="line",
        envelope=log_envelope,
        sources=sources,
    )


def repeat_frames(repeat_id: str, after: int) -> AsyncGenerator[bytes]:
    """Return the frames of the log of a repeat, which the caller may see."""
    return streams.follow(
        repeat_topic(repeat_id), after=after, member="line", envelope=repeat_envelope
    )


def probe_frames(run_id: str) -> AsyncGenerator[bytes]:
    """Return the frames of the probes of a run, which the caller may see."""
    return streams.snapshot_stream(
        probes_nudge(run_id),
        scope="",
        take=ProbesTaker(run_id),
        poll_s=_PROBES_POLL_S,
    )


def overview_frames(workspaces: frozenset[UUID] | None) -> AsyncGenerator[bytes]:
    """Return the frames of the overview of these workspaces, or of all."""
    return streams.snapshot_stream(
        OVERVIEW_NUDGE,
        scope="all" if workspaces is None else ",".join(sorted(map(str, workspaces))),
        take=OverviewTaker(workspaces),
    )


@only_get
async def log_download(request: HttpRequest, **path: str) -> HttpResponseBase:
    """Send the stored log while it is read."""
    run_id = path["executionId"]
    form, source = await on_request_thread(lambda: _admit_to_download(request, run_id))
    pages = log_pages(run_id, form, source=source)
    disposition = content_disposition_header(
        as_attachment=True, filename=f"{run_id}.{'log' if form == 'txt' else form}"
    )
    return StreamingHttpResponse(
        _pieces(pages),
        content_type=_MEDIA_TYPES[form],
        headers={"Content-Disposition": disposition or "attachment", "X-Accel-Buffering": "no"},
    )


@only_get
async def artifact_archive(request: HttpRequest, **path: str) -> HttpResponseBase:
    """Send all artifacts of a run as one zip, while it is made."""
    run_id = path["executionId"]
    parts = await on_request_thread(lambda: _open_archive(request, run_id))
    return StreamingHttpResponse(
        _pieces(parts),
        content_type="application/zip",
        headers={
            "Content-Disposition": f'attachment; filename="{run_id}-artifacts.zip"',
            "X-Accel-Buffering": "no",
            **HARMLESS,
        },
    )


async def on_request_thread(work: Callable[[], T]) -> T:
    """Do `work` on the thread of the request, which then releases its connection to the store."""
    return await sync_to_async(partial(streams.then_disconnect, work))()


def _authorize(request: HttpRequest, run_id: str, known: Collection[str]) -> tuple[int, Principal]:
    principal = authenticate_stream(request, request.path)
    refuse_unknown_parameters(request.GET, known)
    api.get_execution(principal, run_id)
    return streams.resume_point(request), principal


def _admit_to_overview(request: HttpRequest) -> tuple[Any, Principal]:
    principal = authenticate_stream(request, request.path)
    refuse_unknown_parameters(request.GET, {"token", "workspaceId"})
    return visible_workspaces(principal, request.GET.get("workspaceId")), principal


def _admit_to_download(request: HttpRequest, run_id: str) -> tuple[Any, str | None]:
    principal = require_principal(request)
    refuse_unknown_parameters(request.GET, {"format", "source"})
    api.get_execution(principal, run_id)
    form = request.GET.get("format", "txt")
    if form not in _MEDIA_TYPES:
        raise InvalidParameter("format must be txt or ndjson")
    return form, text(request.GET, "source") or None


def _open_archive(request: HttpRequest, run_id: str) -> Iterator[bytes]:
    principal = require_principal(request)
    refuse_unknown_parameters(request.GET, ())
    return artifact_files.artifact_archive(principal, run_id)


async def stream_response(
    request: HttpRequest, frames: AsyncGenerator[bytes], principal: Principal, stream: str
) -> HttpResponseBase:
    return await streams.sse_response(
        request,
        frames,
        user_key=principal.key,
        recheck=partial(recheck, principal),
        stream=stream,
    )


async def _pieces(pages: Iterator[bytes]) -> AsyncGenerator[bytes]:
    loop = asyncio.get_running_loop()
    while piece := await loop.run_in_executor(_readers, _piece, pages):
        yield piece


def _piece(pages: Iterator[bytes]) -> bytes:
    """Return about `_PIECE_BYTES`, and no bytes at the end."""
    close_old_connections()
    taken = bytearray()
    try:
        for page in pages:
            taken += page
            if len(taken) >= _PIECE_BYTES:
                break
    finally:
        connection.close()
    return bytes(taken)


_RUN: Final = {
    "name": "executionId",
    "in": "path",
    "required": True,
    "schema": {"type": "string"},
}
_REPEAT: Final = {
    "name": "repeatId",
    "in": "path",
    "required": True,
    "schema": {"type": "string"},
}
_SINCE: Final = {
    "name": "since",
    "in": "query",
    "description": "replay records with a greater id; `Last-Event-ID` does the same",
    "schema": {"type": "integer", "minimum": 0},
}
_TOKEN: Final = {
    "name": "token",
    "in": "query",
    "description": "a stream ticket or an access token, where headers cannot be set",
    "schema": {"type": "string"},
}
_SOURCE: Final = {
    "name": "source",
    "in": "query",
    "description": "only records of this step; repeatable",
    "schema": {"type": "array", "items": {"type": "string"}},
}
_ONE_SOURCE: Final = {**_SOURCE, "description": "only this step", "schema": {"type": "string"}}
_FORMAT: Final = {
    "name": "format",
    "in": "query",
    "schema": {"type": "string", "enum": ["txt", "ndjson"], "default": "txt"},
}
_WORKSPACE: Final = {
    "name": "workspaceId",
    "in": "query",
    "description": "administrators only: one workspace instead of all",
    "schema": {"type": "string", "format": "uuid"},
}
_STREAM: Final = {
    "name": "stream",
    "in": "query",
    "required": True,
    "description": "path and query of a stream, such as `/api/v1/executions/run-1/logs?since=7`",
    "schema": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 200},
}
_SSE: Final = {"text/event-stream": {"schema": {"type": "string"}}}
_FILE: Final = {
    "text/plain": {"schema": {"type": "string"}},
    "application/x-ndjson": {"schema": {"type": "string"}},
}

_ZIP: Final = {"application/zip": {"schema": {"type": "string", "format": "binary"}}}


Described = Mapping[str, object]  # of a part of the OpenAPI document


def _operation(
    operation_id: str, summary: str, parameters: Sequence[Described], content: Described
) -> dict[str, Described]:
    return {
        "get": {
            "operationId": operation_id,
            "summary": summary,
            "tags": [operation_id.split("_", maxsplit=1)[0]],
            "parameters": parameters,
            "security": [{"bearer": []}, {"session": []}],
            "responses": {"200": {"description": summary, "content": content}},
        }
    }


_PATHS: Final = {
    "/api/v1/executions/{executionId}/events": _operation(
        "executions_events", "What happens in a run, as SSE.", [_RUN, _SINCE, _TOKEN], _SSE
    ),
    "/api/v1/executions/{executionId}/logs": _operation(
        "executions_logs", "A run's log lines, as SSE.", [_RUN, _SINCE, _SOURCE, _TOKEN], _SSE
    ),
    "/api/v1/executions/{executionId}/probes": _operation(
        "executions_probes",
        "What services that are not ready and units that do not start wait for, as SSE.",
        [_RUN, _TOKEN],
        _SSE,
    ),
    "/api/v1/executions/{executionId}/logs/download": _operation(
        "executions_logs_download", "A run's log as a file.", [_RUN, _FORMAT, _ONE_SOURCE], _FILE
    ),
    "/api/v1/executions/{executionId}/repeats/{repeatId}/logs": _operation(
        "executions_repeat_logs",
        "The log of a step that runs again, as SSE.",
        [_RUN, _REPEAT, _SINCE, _TOKEN],
        _SSE,
    ),
    "/api/v1/executions/{executionId}/artifacts/archive": _operation(
        "executions_artifact_archive", "All artifacts of a run as one zip.", [_RUN], _ZIP
    ),
    "/api/v1/engine/overview/stream": _operation(
        "engine_overview_stream", "The overview whenever it changed.", [_WORKSPACE, _TOKEN], _SSE
    ),
    "/api/v1/streams": _operation(
        "streams_shared", "Several streams over one connection, as SSE.", [_STREAM, _TOKEN], _SSE
    ),
}


def describe_stream(result: Any, path: str, operation_id: str, summary: str) -> None:
    """Add a stream that takes a token to the API's description; in a hook of drf-spectacular."""
    _describe(result, path, _operation(operation_id, summary, [_TOKEN], _SSE))


def _describe(result: Any, path: str, operation: Any) -> None:
    schemes = set(result.get("components", {}).get("securitySchemes", {}))
    security = [entry for entry in operation["get"]["security"] if set(entry) <= schemes]
    result["paths"][path] = {"get": {**operation["get"], "security": security}}


def with_streams(result: Schema, **_context: Any) -> Schema:
    """Hook of drf-spectacular; runs before the one that adds problems."""
    for path, operation in _PATHS.items():
        _describe(result, path, operation)
    return result
