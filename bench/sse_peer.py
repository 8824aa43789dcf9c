"""What the stream server is compared with: one Redis subscription a follower, on uvicorn."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

import redis.asyncio

Send = Callable[[dict[str, Any]], Awaitable[None]]
_POOL = redis.asyncio.ConnectionPool.from_url(
    f"redis://{os.environ['REDIS_ADDR']}/0", max_connections=10_000
)


async def application(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[Any]],
    send: Callable[..., Awaitable[None]],
) -> None:
    if scope["type"] != "http":
        return
    async with redis.asyncio.Redis(connection_pool=_POOL).pubsub() as subscription:
        await subscription.subscribe("peer")
        await subscription.get_message(timeout=10)
        headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b": connected\n\n", "more_body": True})
        number = 0
        async for message in subscription.listen():
            number += 1
            frame = b"id: %d\ndata: %b\n\n" % (number, message["data"])
            await send({"type": "http.response.body", "body": frame, "more_body": True})
