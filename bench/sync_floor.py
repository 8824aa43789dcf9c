"""`python -m bench.sync_floor`: the least that a gateway in Python does, as a floor for ours.

HMAC, JSON, SHA-256, the gateway's own stream to the orchestrator, an answer: no routes, limits,
replay records, ids, metrics, log, nor the proof that no key of the JSON occurs twice. Settings as
the gateway's.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import uvicorn

from sync_stack.core.signatures import prefixed_hmac_matches
from sync_stack.gateway.process import collect_garbage_less
from sync_stack.gateway.webhook_stream import WebhookStreams
from sync_stack.rpc.channel import OrchestratorChannel
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2 import ProcessWebhookRequest

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]
_decode = msgspec.json.Decoder().decode


class Floor:
    def __init__(self) -> None:
        self._secret = os.environ["HOOK_SECRET"].encode()
        self._streams: WebhookStreams | None = None

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        body = await _body(receive)
        if not prefixed_hmac_matches(
            (self._secret,), body, headers[b"x-hub-signature-256"].decode()
        ):
            raise ValueError("the signature is wrong")
        if not _decode(body)["ref"]:
            raise ValueError("no push")
        task_id = await self._forward(body, headers[b"x-github-delivery"].decode())
        said = msgspec.json.encode({"task_id": task_id, "message": "accepted"})
        length = (b"content-length", b"%d" % len(said))
        await send({"type": "http.response.start", "status": 202, "headers": [length]})
        await send({"type": "http.response.body", "body": said})

    async def _forward(self, body: bytes, delivery_id: str) -> str:
        if self._streams is None:  # it belongs to the loop
            channel = OrchestratorChannel(os.environ["ORCHESTRATOR_ADDR"], None)
            self._streams = WebhookStreams(channel)
        digest = hashlib.sha256(body).hexdigest()
        key = hashlib.sha256(f"{delivery_id}{digest}".encode()).hexdigest()
        message = ProcessWebhookRequest(
            platform="github",
            datasource="file",
            raw_payload=body,
            event="push",
            delivery_id=delivery_id,
            idempotency_key=key,
            payload_sha256=digest,
            signature_verified=True,
        )
        answer = await self._streams.call(key, message.SerializeToString(), "", 10)
        return str(answer.task_id)


async def _body(receive: Receive) -> bytes:
    chunks = []
    while True:
        message = await receive()
        chunks.append(message["body"])
        if not message.get("more_body", False):
            return b"".join(chunks)


if __name__ == "__main__":
    collect_garbage_less()
    host, _, port = os.environ["GATEWAY_ADDR"].rpartition(":")
    uvicorn.run(
        Floor(), host=host, port=int(port), lifespan="off", access_log=False, log_level="error"
    )
