"""The channel to the orchestrator: message limit, keepalive, metadata, new certificates."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import grpc
import grpc.aio

from kernel import clock
from sync_stack.configuration.startup import StartRefused
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2 import (
    ProcessWebhookBatchResult,
    ProcessWebhookResponse,
)
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2_grpc import OrchestratorStub
from sync_stack.rpc.tls import TlsFiles, TlsPair, TlsUnreadable, client_credentials

logger = logging.getLogger(__name__)

MAX_MESSAGE_BYTES: Final = 101 * 2**20
MAX_BATCH: Final = 256  # deliveries in a message of ProcessWebhooks
MAX_BATCH_BYTES: Final = 4 * 2**20
PROCESS_WEBHOOKS: Final = "/partita.sync.v1.Orchestrator/ProcessWebhooks"
PROCESS_WEBHOOK: Final = "/partita.sync.v1.Orchestrator/ProcessWebhook"
RELOAD_INTERVAL_S: Final = 10.0
_CLOSE_GRACE_S: Final = 20.0
_KEEPALIVE_MS: Final = 20_000
_KEEPALIVE_TIMEOUT_MS: Final = 5_000
_COMMON: Final = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)
CHANNEL_OPTIONS: Final = (
    *_COMMON,
    ("grpc.enable_retries", 0),  # the breaker and the sender decide what is tried again
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.use_local_subchannel_pool", 1),  # a new channel means a new connection
)
SERVER_OPTIONS: Final = (
    *_COMMON,
    ("grpc.http2.min_ping_interval_without_data_ms", _KEEPALIVE_MS // 2),
    ("grpc.so_reuseport", 0),  # a second process on the port is an error, not a sharer
)


def call_metadata(
    *, correlation_id: str = "", traceparent: str = "", token: str = ""
) -> tuple[tuple[str, str], ...]:
    """Return the metadata that every call carries."""
    pairs = (
        ("x-correlation-id", correlation_id),
        ("traceparent", traceparent),
        ("authorization", f"Bearer {token}" if token else ""),
    )
    return tuple((name, value) for name, value in pairs if value)


def open_channel(address: str, pair: TlsPair | None) -> Any:
    """A channel with mutual TLS, or a plain one without `pair`; it connects by itself."""
    if pair is None:
        return grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)
    return grpc.aio.secure_channel(address, client_credentials(pair), options=CHANNEL_OPTIONS)


class OrchestratorChannel:
    """The stub of the orchestrator; another channel takes its place when TLS files change.

    Raises TlsUnreadable when made with files that cannot be used; later such files are logged and
    the channel stays. Calls that run on a replaced channel are finished.
    """

    def __init__(self, address: str, files: TlsFiles | None) -> None:
        self.address = address
        self._files = files
        self._pair = files.read() if files else None
        self._replaced: set[asyncio.Task[None]] = set()
        self._use(open_channel(address, self._pair))

    @classmethod
    def open(cls, address: str, files: TlsFiles | None) -> OrchestratorChannel:
        """Open the channel of a process. Raises StartRefused for files that cannot be used."""
        try:
            return cls(address, files)
        except TlsUnreadable as error:
            raise StartRefused([f"GRPC_TLS_CERT, GRPC_TLS_KEY, GRPC_TLS_CA: {error}"]) from None

    def _use(self, channel: Any) -> None:
        if expired := self.expiry_notice():
            logger.error("calls will fail: %s", expired)
        self._channel = channel
        self.stub: Any = OrchestratorStub(channel)  # type: ignore[no-untyped-call]
        # Takes the request as bytes, so that a large one is not held twice.
        self.process_webhook: Any = channel.unary_unary(
            PROCESS_WEBHOOK, response_deserializer=ProcessWebhookResponse.FromString
        )
        self.process_webhooks: Any = channel.stream_stream(
            PROCESS_WEBHOOKS, response_deserializer=ProcessWebhookBatchResult.FromString
        )

    async def watch_files(
        self, interval_s: float = RELOAD_INTERVAL_S, on_change: Callable[[], None] | None = None
    ) -> None:
        """Look for changed files until cancelled."""
        while self._files is not None:
            await asyncio.sleep(interval_s)
            if await asyncio.to_thread(self._reread_files):
                self._replace()
                if on_change is not None:
                    on_change()

    def expiry_notice(self) -> str:
        """Return a sentence once our certificate has expired, which callers see as no answer."""
        if self._files is None or self._pair is None:
            return ""
        end = self._pair.ends_at()
        return "" if end > clock.now() else f"{self._files.cert} expired on {end:%Y-%m-%d}"

    async def close(self, grace_s: float = _CLOSE_GRACE_S) -> None:
        for task in tuple(self._replaced):
            task.cancel()
        await asyncio.gather(*self._replaced, return_exceptions=True)
        await self._channel.close(grace_s)

    def _reread_files(self) -> bool:
        """Return whether the files hold another usable pair than before, and remember it."""
        if self._files is None:
            return False
        try:
            pair = self._files.read()
        except TlsUnreadable as error:
            logger.warning("the gRPC certificates changed and are not usable: %s", error)
            return False
        changed, self._pair = pair != self._pair, pair
        return changed

    def _replace(self) -> None:
        task = asyncio.create_task(self._channel.close(_CLOSE_GRACE_S))
        self._replaced.add(task)
        task.add_done_callback(self._replaced.discard)
        self._use(open_channel(self.address, self._pair))
