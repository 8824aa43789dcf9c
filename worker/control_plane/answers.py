"""What an HTTP answer of the agent protocol means: the port's errors.

(reference: control-plane 15)
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import httpx

from worker.domain.control_plane import (
    ControlPlaneError,
    ControlPlaneUnavailable,
    LinesMissing,
    RequestRefused,
    StaleJob,
)

_LATER: Final = (
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.TOO_EARLY,
    HTTPStatus.TOO_MANY_REQUESTS,
)
_DETAIL: Final = 300


class CredentialRefused(ControlPlaneUnavailable):
    """401, or the agent is unknown: what was asked may succeed after registering again."""


def checked(response: httpx.Response) -> httpx.Response:
    """`response` when it is a success; raises ControlPlaneError."""
    if response.is_success:
        return response
    raise _error(response)


def _error(response: httpx.Response) -> ControlPlaneError:
    problem = _problem(response)
    code = problem.get("code", "")
    detail = f"{response.status_code} {code}: {problem.get('detail', '')}"[:_DETAIL]
    status = response.status_code
    if status == HTTPStatus.UNAUTHORIZED or code == "agent_not_found":
        return CredentialRefused(detail)
    if code in ("stale_attempt", "job_not_found"):
        return StaleJob(detail)
    if code == "log_gap":
        return LinesMissing(int(problem.get("nextSeq", 0)))
    if not code or status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _LATER:
        return ControlPlaneUnavailable(detail)  # without a code it is no answer of a control plane
    return RequestRefused(detail)


def _problem(response: httpx.Response) -> dict[str, Any]:
    if not response.headers.get("Content-Type", "").startswith("application/problem+json"):
        return {}
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
