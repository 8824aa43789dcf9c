"""`/api/v1/sandboxes/events`: the newest snapshot, then one after each change, as SSE.

(reference: control-plane 12, 17)
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.accounts.api import Principal, authenticate_stream
from apps.environments.selectors import Viewer, viewer_of
from apps.environments.services.inventory_looks import ENVIRONMENTS_NUDGE
from apps.environments.services.snapshots import SnapshotTaker
from apps.executions.rest import describe_stream, on_request_thread, only_get, stream_response
from apps.http.rest import refuse_unknown_parameters
from apps.streams import api as streams

_POLL_S: Final = 2.0  # a change that no nudge told is seen by then


@only_get
async def events(request: HttpRequest) -> HttpResponseBase:
    """Stream the environments that the caller may see."""
    viewer, principal = await on_request_thread(lambda: _admit(request))
    return await stream_response(request, snapshot_frames(viewer), principal, "environments")


def _admit(request: HttpRequest) -> tuple[Viewer, Principal]:
    principal = authenticate_stream(request, request.path)
    refuse_unknown_parameters(request.GET, {"token"})
    return viewer_of(principal), principal


def open_shared(
    principal: Principal, query: Mapping[str, Any]
) -> Callable[[], AsyncGenerator[bytes]]:
    """Return what opens the stream inside a shared one."""
    refuse_unknown_parameters(query, ())
    viewer = viewer_of(principal)
    return lambda: snapshot_frames(viewer)


def snapshot_frames(viewer: Viewer) -> AsyncGenerator[bytes]:
    """Return the frames for a viewer; those who see and may do the same share each snapshot."""
    workspaces = viewer.workspaces
    scope = "all" if workspaces is None else ",".join(sorted(workspaces))
    return streams.snapshot_stream(
        ENVIRONMENTS_NUDGE,
        scope=f"{scope} {viewer.may_reap}",
        take=SnapshotTaker(viewer),
        poll_s=_POLL_S,
        numbered=True,
    )


def with_stream(result: Any, **_context: Any) -> Any:
    """Add the stream to the API's description; a hook of drf-spectacular."""
    summary = "The environments whenever something of them changed, as SSE."
    describe_stream(result, "/api/v1/sandboxes/events", "sandboxes_events", summary)
    return result
