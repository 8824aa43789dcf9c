from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from apps.accounts.rest import IsSignedIn, SessionAuthentication
from apps.http.asgi import ControlPlaneHandler
from apps.observability.api import request_context
from apps.operations.domain import lifecycle

Ask = Callable[..., httpx.Response]


@pytest.fixture
def ask(settings: Any) -> Ask:
    """One request through the whole ASGI pipeline: `ask("GET", "/healthz", headers=…)`."""
    settings.ROOT_URLCONF = "tests.apps.http.urlconf"
    return send


def send(method: str, path: str, **more: Any) -> httpx.Response:
    async def go() -> httpx.Response:
        transport = httpx.ASGITransport(app=_app(), client=("203.0.113.9", 4711))
        async with httpx.AsyncClient(transport=transport, base_url="http://partita.test") as client:
            return await client.request(method, path, **more)

    return asyncio.run(go())


def _app() -> Any:
    return ControlPlaneHandler()


async def ask_and_leave(path: str, *, after_messages: int) -> list[dict[str, Any]]:
    """GET `path` as a client that hangs up once it got so many ASGI messages; returns those."""
    sent: list[dict[str, Any]] = []
    enough = asyncio.Event()
    incoming = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if incoming:
            return incoming.pop()
        await enough.wait()
        return {"type": "http.disconnect"}

    async def collect(message: Any) -> None:
        sent.append(message)
        if len(sent) >= after_messages:
            enough.set()

    if after_messages == 0:
        asyncio.get_running_loop().call_later(0.05, enough.set)
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}
    await ControlPlaneHandler()({**scope, "client": ("203.0.113.9", 1)}, receive, collect)
    return sent


@pytest.fixture
def draining() -> Iterator[None]:
    lifecycle.begin_drain()
    yield
    lifecycle._draining.clear()


@pytest.fixture
def audit_lines() -> Iterator[list[str]]:
    """The lines on `partita.audit`, as they come."""
    lines: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    collect, logger = Collect(), logging.getLogger("partita.audit")
    logger.addHandler(collect)
    yield lines
    logger.removeHandler(collect)


@pytest.fixture
def signed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks counts as signed in."""

    def as_somebody(*_arguments: object) -> tuple[object, None]:
        context = request_context()
        context.user_id, context.workspace_id, context.is_admin = "u-1", "w-1", False
        return object(), None

    monkeypatch.setattr(SessionAuthentication, "authenticate", as_somebody)
    monkeypatch.setattr(IsSignedIn, "has_permission", lambda *_arguments: True)
