"""HTTP requests of a worker to its control plane: token, deadlines, and the port's errors.

Proxies of the environment and redirects are not followed: the secret is for one address only.

(reference: control-plane 15)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, TypeVar

import httpx
import msgspec

from kernel.agent_protocol import RegistrationAnswer
from worker.domain.control_plane import (
    ControlPlaneError,
    ControlPlaneUnavailable,
    LinesMissing,
    RequestRefused,
    StaleJob,
)

CALL_S: Final = 30.0
_BLOCKING_S: Final = 5.0
_KEEPALIVE_S: Final = 4.0  # less than servers wait before they close an idle connection
_LIMITS: Final = httpx.Limits(max_connections=100, keepalive_expiry=_KEEPALIVE_S)
Body = Mapping[str, object]
T = TypeVar("T")
_LATER: Final = (
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.TOO_EARLY,
    HTTPStatus.TOO_MANY_REQUESTS,
)
_DETAIL: Final = 300


class ControlPlaneClient:
    """The HTTP client of one worker; `needs_registration` is set once its token is refused."""

    def __init__(
        self,
        address: str,
        secret: str,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        blocking_transport: httpx.BaseTransport | None = None,
    ) -> None:
        base = f"{address}/api/v1"
        self._secret = secret
        self._client = httpx.AsyncClient(
            base_url=base, trust_env=False, limits=_LIMITS, timeout=CALL_S, transport=transport
        )
        self._blocking = httpx.Client(
            base_url=base,
            trust_env=False,
            limits=_LIMITS,
            timeout=_BLOCKING_S,
            transport=blocking_transport,
        )
        self._token = ""
        self._lock = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self.needs_registration = asyncio.Event()

    async def register(self, body: Body) -> RegistrationAnswer:
        """Register and use the token of the answer from now on. Raises as `checked`."""
        response = await self._request("POST", "/agents/register", self._secret, body=body)
        answer = _answer(response, RegistrationAnswer)
        with self._lock:
            self._token = answer.agent_token
            self.needs_registration.clear()
        return answer

    async def post(
        self, path: str, body: Body, answer: type[T], *, deadline_s: float = CALL_S
    ) -> T:
        """Return the JSON answer; 204 counts as an empty object."""
        response = await self.call("POST", path, body=body, deadline_s=deadline_s)
        return _answer(response, answer)

    async def call(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Raises ControlPlaneError, as `checked` does."""
        token = self._current_token()
        try:
            return await self._request(method, path, token, **request)
        except CredentialRefused:
            self._forget(token)
            raise

    def post_blocking(self, path: str, body: Body, answer: type[T]) -> T:
        """Post on the calling thread, over connections of its own."""
        token = self._current_token()
        try:
            response = self._blocking.post(
                path, content=msgspec.json.encode(body), headers=_headers(token)
            )
            return _answer(require_success(response), answer)
        except httpx.HTTPError as error:
            raise ControlPlaneUnavailable(_sentence(error)) from error
        except CredentialRefused:
            self._loop.call_soon_threadsafe(self._forget, token)
            raise

    async def _request(
        self,
        method: str,
        path: str,
        bearer: str,
        *,
        body: Body | None = None,
        deadline_s: float = CALL_S,
        media_type: str = "application/json",
        **request: Any,
    ) -> httpx.Response:
        if body is not None:
            request["content"] = msgspec.json.encode(body)
        try:
            async with asyncio.timeout(deadline_s):
                response = await self._client.request(
                    method,
                    path,
                    headers=_headers(bearer, media_type),
                    timeout=deadline_s,
                    **request,
                )
        except TimeoutError as error:
            raise ControlPlaneUnavailable(f"no answer within {deadline_s:g} s") from error
        except httpx.HTTPError as error:
            raise ControlPlaneUnavailable(_sentence(error)) from error
        return require_success(response)

    def _current_token(self) -> str:
        if not self._token:
            raise ControlPlaneUnavailable("this worker is not registered")
        return self._token

    def _forget(self, token: str) -> None:
        """Drop the token unless a newer one has replaced it."""
        with self._lock:
            if token == self._token:
                self._token = ""
                self.needs_registration.set()

    async def close(self) -> None:
        await self._client.aclose()
        self._blocking.close()


def _answer(response: httpx.Response, answer: type[T]) -> T:
    content = b"{}" if response.status_code == HTTPStatus.NO_CONTENT else response.content
    try:
        return msgspec.json.decode(content, type=answer)
    except ValueError:  # no JSON, no UTF-8, or other members
        raise ControlPlaneUnavailable("the answer is not one of a control plane") from None


def _headers(bearer: str, media_type: str = "application/json") -> dict[str, str]:
    return {"Authorization": f"Bearer {bearer}", "Content-Type": media_type}


def _sentence(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class CredentialRefused(ControlPlaneUnavailable):
    """401, or an unknown agent: the request may succeed after a new registration."""


def require_success(response: httpx.Response) -> httpx.Response:
    """Return the response if it is a success; else raise the ControlPlaneError it stands for."""
    if response.is_success:
        return response
    raise _error(response)


class _Problem(msgspec.Struct, rename="camel"):
    code: str = ""
    detail: object = ""
    next_seq: object = 0


def _error(response: httpx.Response) -> ControlPlaneError:
    problem = _problem(response)
    code = problem.code
    detail = f"{response.status_code} {code}: {problem.detail}"[:_DETAIL]
    status = response.status_code
    if status == HTTPStatus.UNAUTHORIZED or code == "agent_not_found":
        return CredentialRefused(detail)
    if code in ("stale_attempt", "job_not_found"):
        return StaleJob(detail)
    if code == "log_gap":
        return LinesMissing(problem.next_seq if isinstance(problem.next_seq, int) else 0)
    if not code or status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _LATER:
        return ControlPlaneUnavailable(detail)  # without a code: not from a control plane
    return RequestRefused(detail)


def _problem(response: httpx.Response) -> _Problem:
    if not response.headers.get("Content-Type", "").startswith("application/problem+json"):
        return _Problem()
    try:
        return msgspec.json.decode(response.content, type=_Problem)
    except ValueError:  # a proxy's, for one
        return _Problem()
