"""Several streams over one connection, for the tabs of a browser.

(reference: control-plane 12)
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from functools import cache
from typing import Final
from urllib.parse import urlsplit

from django.apps import apps
from django.http import HttpRequest, QueryDict
from django.http.response import HttpResponseBase
from django.urls import Resolver404, ResolverMatch, resolve
from django.utils.module_loading import import_string

from apps.accounts.api import Principal, authenticate_stream, visible_workspaces
from apps.executions import api
from apps.executions.rest.parameters import texts
from apps.executions.rest.streams import (
    event_frames,
    log_frames,
    on_request_thread,
    only_get,
    overview_frames,
    probe_frames,
    repeat_frames,
    stream_response,
)
from apps.executions.selectors.repeats import get_repeat
from apps.http.rest import InvalidParameter, refuse_unknown_parameters
from apps.observability.api import request_context
from apps.operations.api import DatastoreUnavailable
from apps.streams import api as streams
from kernel.errors import PlatformError
from kernel.problems import problem_document

MOST_STREAMS: Final = 200
_Open = Callable[[], AsyncGenerator[bytes] | bytes]
_OF_RUNS: Final[dict[str, frozenset[str]]] = {  # route → the parameters of its query
    "executions:events": frozenset({"since"}),
    "executions:logs": frozenset({"since", "source"}),
    "executions:probes": frozenset(),
    "executions:repeat-logs": frozenset({"since"}),
}


@cache
def shared_streams() -> dict[str, str]:
    """Return the streams of other apps: the name of the route → what opens it, `module.function`.

    An app declares them in its config. The function takes the principal and the query, and raises
    PlatformError.
    """
    configs = apps.get_app_configs()
    return {
        name: path for each in configs for name, path in getattr(each, "shared_streams", {}).items()
    }


@only_get
async def shared_stream(request: HttpRequest) -> HttpResponseBase:
    """Stream what every `stream` of the query streams; a refused one gets a frame that says why."""
    principal, opens = await on_request_thread(lambda: _authorize(request))
    frames = streams.merge([make() for make in opens])
    return await stream_response(request, frames, principal, "shared")


def _authorize(request: HttpRequest) -> tuple[Principal, list[_Open]]:
    principal = authenticate_stream(request, request.path)
    refuse_unknown_parameters(request.GET, {"stream", "token"})
    addresses = request.GET.getlist("stream")
    if not 1 <= len(addresses) <= MOST_STREAMS:
        raise InvalidParameter(f"stream must be given 1 to {MOST_STREAMS} times")
    return principal, [_admit_stream(principal, address) for address in addresses]


def _admit_stream(principal: Principal, address: str) -> _Open:
    try:
        return _find_stream(principal, address)
    except DatastoreUnavailable:
        raise
    except PlatformError as error:
        problem = problem_document(error, instance=address, request_id=request_context().request_id)
        frame = streams.refusal_frame(json.dumps(problem).encode())
        return lambda: frame


def _find_stream(principal: Principal, address: str) -> _Open:
    """Return what opens the stream of a path with its query; raise PlatformError."""
    parts = urlsplit(address)
    query = QueryDict(parts.query)
    try:
        match = resolve(parts.path)
    except Resolver404:
        raise InvalidParameter("stream must be the path of a stream") from None
    if match.view_name == "executions:engine-overview-stream":
        refuse_unknown_parameters(query, {"workspaceId"})
        workspaces = visible_workspaces(principal, query.get("workspaceId"))
        return lambda: overview_frames(workspaces)
    if opener := shared_streams().get(match.view_name):
        open_other: _Open = import_string(opener)(principal, query)
        return open_other
    return _open_stream_of_run(match, principal, query)


def _open_stream_of_run(match: ResolverMatch, principal: Principal, query: QueryDict) -> _Open:
    known = _OF_RUNS.get(match.view_name)
    if known is None:
        raise InvalidParameter("stream must be the path of a stream")
    refuse_unknown_parameters(query, known)
    run_id, repeat_id = match.kwargs["executionId"], match.kwargs.get("repeatId", "")
    api.get_execution(principal, run_id)
    after = streams.resume_after(since=query.get("since"), last_event_id=None)
    if repeat_id:
        get_repeat(principal, run_id, repeat_id)
        return lambda: repeat_frames(repeat_id, after)
    if match.view_name == "executions:probes":
        return lambda: probe_frames(run_id)
    if match.view_name == "executions:logs":
        return lambda: log_frames(run_id, after, texts(query, "source"))
    return lambda: event_frames(run_id, after)
