"""Every status as a table: each row is answered over HTTP (reference: sync-stack 2.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import httpx
import pytest

from sync_stack.core.bundle.model import Bundle, Rate
from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.core.replay import Delivery
from sync_stack.gateway.responses import STATUS, Code
from tests.support.webhooks import github_push, platform, signed
from tests.sync.gateway.world import Orchestrator, World, answer, bundle, limits, raw, world

Act = Callable[[World], Awaitable[httpx.Response]]
HELD = 2  # records of one GitHub delivery: its id and its body


@dataclass(frozen=True, kw_only=True)
class Row:
    """`why` tells rows of one code apart. `records` is what is reserved or accepted after it."""

    status: int
    code: str
    why: str = ""
    retry_after: str = ""  # exactly this, or `some`: a second or more
    records: int = 0

    def __str__(self) -> str:
        return " ".join(filter(None, (str(self.status), self.code, self.why)))


@dataclass(frozen=True, kw_only=True)
class Case:
    act: Act
    given: Callable[[], Bundle | None] = field(default=lambda: None)
    orchestrator: Callable[[], Orchestrator] = Orchestrator
    settings: dict[str, Any] = field(default_factory=dict)


ROWS = (
    Row(status=202, code="accepted", records=HELD),
    Row(status=200, code="event ignored"),
    Row(status=400, code="GW_PLATFORM_MISMATCH"),
    Row(status=400, code="GW_MISSING_DELIVERY_ID"),
    Row(status=400, code="GW_INVALID_CONTENT_TYPE", why="absent"),
    Row(status=400, code="GW_BODY_READ_FAILED"),
    Row(status=400, code="GW_INVALID_JSON"),
    Row(status=400, code="GW_PAYLOAD_VALIDATION"),
    Row(status=400, code="GW_PAYLOAD_VALIDATION", why="INVALID_ARGUMENT"),
    Row(status=401, code="GW_SIGNATURE_INVALID", why="wrong"),
    Row(status=401, code="GW_SIGNATURE_INVALID", why="missing"),
    Row(status=401, code="GW_REPLAY_DETECTED", records=HELD),
    Row(status=404, code="GW_DATASOURCE_NOT_FOUND"),
    Row(status=404, code="GW_DATASOURCE_NOT_FOUND", why="NOT_FOUND"),
    Row(status=404, code="GW_SCHEMA_REGISTRY_NOT_CONFIGURED"),
    Row(status=404, code="GW_NOT_FOUND"),
    Row(status=405, code="GW_METHOD_NOT_ALLOWED"),
    Row(status=413, code="GW_BODY_TOO_LARGE"),
    Row(status=415, code="GW_INVALID_CONTENT_TYPE", why="another type"),
    Row(status=429, code="GW_RATE_LIMITED", why="global", retry_after="some"),
    Row(status=429, code="GW_RATE_LIMITED", why="ip", retry_after="some"),
    Row(status=429, code="GW_RATE_LIMITED", why="key", retry_after="some"),
    Row(status=500, code="GW_INTERNAL"),
    Row(status=502, code="GW_ORCHESTRATOR_ERROR", why="another failure"),
    Row(status=502, code="GW_ORCHESTRATOR_ERROR", why="RESOURCE_EXHAUSTED", retry_after="5"),
    Row(status=503, code="GW_ORCHESTRATOR_UNAVAILABLE", retry_after="some"),
    Row(status=503, code="GW_SECRET_UNAVAILABLE", retry_after="some"),
    Row(status=503, code="GW_DELIVERY_IN_PROGRESS", retry_after="5", records=HELD),
)


def sending(**kwargs: Any) -> Act:
    """One signed push with these differences."""
    return lambda gw: gw.send(**kwargs)


def failing(status: grpc.StatusCode) -> Callable[[], Orchestrator]:
    return lambda: Orchestrator(failing=status)


def limited(**rates: Rate) -> Callable[[], Bundle]:
    return lambda: bundle(gateway=limits(**rates))


def without_its_key() -> Bundle:
    away = platform(secret=None)
    object.__setattr__(away, "secret", SecretRef(path="a", key="b", manager="vault"))
    return bundle(away)


async def requesting(gw: World, method: str, path: str) -> httpx.Response:
    return await gw.client.request(method, path)


async def broken_body(gw: World) -> httpx.Response:
    headers = {**signed(b"{}"), "Host": "x", "Transfer-Encoding": "chunked"}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    came = await raw(gw.port, f"POST /webhooks/mongo HTTP/1.1\r\n{head}\r\nzz\r\n{{".encode())
    lines, _, body = came.partition(b"\r\n\r\n")
    status, *rest = lines.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in rest)
    return httpx.Response(int(status.split()[1]), headers=headers, content=body)


async def twice(gw: World) -> httpx.Response:
    await gw.send()
    return await gw.send()


async def many(gw: World) -> httpx.Response:
    await gw.send(headers={"X-Hub-Signature-256": None})
    return await gw.send()


async def with_an_open_breaker(gw: World) -> httpx.Response:
    gw.orchestrator.ready = False  # or a ping would close the breaker
    assert (await gw.send(github_push(n=1), delivery="d-0")).status_code == 502
    return await gw.send()


async def of_a_broken_gateway(gw: World) -> httpx.Response:
    object.__setattr__(gw.gateway.pipeline, "webhook_secrets", None)
    return await gw.send()


async def while_a_copy_is_under_way(gw: World) -> httpx.Response:
    known = Delivery(
        platform="github", segment="mongo", event="push", delivery_id="d-1", body=github_push()
    )
    keys = known.replay_keys(id_is_signed=False).redis_keys()
    gw.gateway.pipeline.reservations.memory.claim(keys, "somebody", 60)
    return await gw.send()


ONE = Rate(rate=0.01, burst=1)
CASES = {
    "202 accepted": Case(act=sending()),
    "200 event ignored": Case(act=sending(event="ping")),
    "400 GW_PLATFORM_MISMATCH": Case(act=sending(headers={"X-GitHub-Event": None})),
    "400 GW_MISSING_DELIVERY_ID": Case(
        act=sending(headers={"X-GitHub-Delivery": None}), settings={"app_env": "production"}
    ),
    "400 GW_INVALID_CONTENT_TYPE absent": Case(act=sending(headers={"Content-Type": None})),
    "400 GW_BODY_READ_FAILED": Case(act=broken_body),
    "400 GW_INVALID_JSON": Case(act=sending(body=b"[]")),
    "400 GW_PAYLOAD_VALIDATION": Case(act=sending(body=b"{}")),
    "400 GW_PAYLOAD_VALIDATION INVALID_ARGUMENT": Case(
        act=sending(), orchestrator=failing(grpc.StatusCode.INVALID_ARGUMENT)
    ),
    "401 GW_SIGNATURE_INVALID wrong": Case(act=sending(secret="another")),
    "401 GW_SIGNATURE_INVALID missing": Case(act=sending(headers={"X-Hub-Signature-256": None})),
    "401 GW_REPLAY_DETECTED": Case(act=twice),
    "404 GW_DATASOURCE_NOT_FOUND": Case(act=sending(segment="nowhere")),
    "404 GW_DATASOURCE_NOT_FOUND NOT_FOUND": Case(
        act=sending(), orchestrator=failing(grpc.StatusCode.NOT_FOUND)
    ),
    "404 GW_SCHEMA_REGISTRY_NOT_CONFIGURED": Case(act=sending(segment="schema-registry")),
    "404 GW_NOT_FOUND": Case(act=lambda gw: requesting(gw, "POST", "/elsewhere")),
    "405 GW_METHOD_NOT_ALLOWED": Case(act=lambda gw: requesting(gw, "PUT", "/webhooks/mongo")),
    "413 GW_BODY_TOO_LARGE": Case(
        act=sending(body=b"x" * 65), given=lambda: bundle(max_webhook_body_bytes=64)
    ),
    "415 GW_INVALID_CONTENT_TYPE another type": Case(
        act=sending(headers={"Content-Type": "application/x-www-form-urlencoded"})
    ),
    "429 GW_RATE_LIMITED global": Case(act=many, given=limited(rate_global=ONE)),
    "429 GW_RATE_LIMITED ip": Case(act=many, given=limited(rate_per_ip=ONE)),
    "429 GW_RATE_LIMITED key": Case(act=many, given=limited(rate_per_key=ONE)),
    "500 GW_INTERNAL": Case(act=of_a_broken_gateway),
    "502 GW_ORCHESTRATOR_ERROR another failure": Case(
        act=sending(), orchestrator=failing(grpc.StatusCode.DATA_LOSS)
    ),
    "502 GW_ORCHESTRATOR_ERROR RESOURCE_EXHAUSTED": Case(
        act=sending(), orchestrator=failing(grpc.StatusCode.RESOURCE_EXHAUSTED)
    ),
    "503 GW_ORCHESTRATOR_UNAVAILABLE": Case(
        act=with_an_open_breaker,
        given=lambda: bundle(gateway=limits(breaker_failures=1)),
        orchestrator=failing(grpc.StatusCode.UNAVAILABLE),
    ),
    "503 GW_SECRET_UNAVAILABLE": Case(act=sending(), given=without_its_key),
    "503 GW_DELIVERY_IN_PROGRESS": Case(
        act=while_a_copy_is_under_way, given=lambda: bundle(gateway=limits(forward_timeout_s=0.1))
    ),
}


def test_every_row_has_its_case_and_every_code_its_row():
    assert set(CASES) == {str(row) for row in ROWS}
    assert {row.code for row in ROWS if row.status >= 400} == {code.value for code in Code}
    by_code = {row.code: row.status for row in ROWS if row.why != "absent"}
    assert {code: by_code[code.value] for code in Code} == STATUS


@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_each_row_is_answered_as_it_says(row: Row):
    """Sync invariants 3, 34."""
    case = CASES[str(row)]
    async with world(case.given(), orchestrator=case.orchestrator(), **case.settings) as gw:
        response = await case.act(gw)

        assert answer(response) == (row.status, row.code)
        retry = response.headers.get("retry-after", "")
        assert int(retry) >= 1 if row.retry_after == "some" else retry == row.retry_after
        if row.status == 429:
            assert response.headers["x-ratelimit-scope"] == row.why
        await _records(gw, row.records)


async def _records(gw: World, count: int) -> None:
    """The reservation is settled right after the answer went out."""
    async with asyncio.timeout(30):
        while len(gw.gateway.pipeline.reservations.memory) != count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
