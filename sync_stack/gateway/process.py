"""The gateway process: its set-up, the reload of its bundle, and its shutdown in steps."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import uvloop
from prometheus_client import disable_created_metrics

from kernel.background import keep_running
from sync_stack.configuration.bundle_file import BundleFile
from sync_stack.configuration.conf import process_environment
from sync_stack.configuration.logs import configure_logging
from sync_stack.configuration.secrets import SecretError, SecretResolver, bundle_hooks
from sync_stack.configuration.startup import StartRefused, refusing, unavailable
from sync_stack.configuration.telemetry import ProcessTelemetry
from sync_stack.configuration.vault import VaultClient
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.secret_use import Process, gateway_redis, webhook_secrets
from sync_stack.gateway.breaker import Breaker, BreakerState
from sync_stack.gateway.conf import GatewaySettings, read_settings
from sync_stack.gateway.delivery_checks import DeliveryPipeline
from sync_stack.gateway.forwarder import Forwarder
from sync_stack.gateway.http import GatewayApplication
from sync_stack.gateway.inbox import Inbox, InboxForwarder, InboxUnusable
from sync_stack.gateway.listener import InboundTls, Listener
from sync_stack.gateway.metrics import GatewayMetrics
from sync_stack.gateway.rate_limits import MemoryBudget, RateLimiter
from sync_stack.gateway.reservations import MemoryReplay, RedisReplay, Reservations, open_redis
from sync_stack.gateway.routes import CompiledBundle, compile_bundle
from sync_stack.gateway.webhook_secrets import WebhookSecretResolver, WebhookSecrets
from sync_stack.rpc.channel import OrchestratorChannel
from sync_stack.rpc.readiness import Health, keep_pinging
from sync_stack.sinks.redis import RedisOptions

log: Final = logging.getLogger("partita.sync.gateway")

LISTENING_ON_S: Final = 2.0  # after SIGTERM, so that load balancers see "not ready"
DRAIN_S: Final = 20.0
_CHANNEL_GRACE_S: Final = 1.0
_TELEMETRY_STOP_S: Final = 1.0  # of the 25 s for the whole stop
_DESCRIPTORS: Final = 20_000
_COLLECT_AFTER: Final = 20_000  # objects


class Gateway:
    """The parts of a gateway, on one event loop."""

    def __init__(
        self, settings: GatewaySettings, bundle: Bundle, resolver: WebhookSecretResolver
    ) -> None:
        self.settings = settings
        self.compiled = _compile(settings, bundle)
        self.metrics = GatewayMetrics(version=settings.version, commit=settings.commit)
        self.metrics.expect(bundle)
        clock = time.monotonic
        limits = self.compiled.limits
        self.limiter = RateLimiter(limits.rates, clock)
        self.breaker = Breaker(limits.breaker, clock, self.metrics.record_breaker_change)
        self.webhook_secrets = WebhookSecrets(resolver, clock)
        self.health = Health(self._notes, clock, self._refusals)
        self.channel = OrchestratorChannel.open(settings.orchestrator, settings.grpc_tls)
        self.forwarder = Forwarder(self.channel, self.breaker, self.metrics, token=settings.token)
        try:
            self.inbox = Inbox(settings.inbox) if settings.inbox else None
        except InboxUnusable as error:
            raise unavailable(str(error)) from None
        self.pipeline = DeliveryPipeline(
            webhook_secrets=self.webhook_secrets,
            memory=MemoryBudget(),
            reservations=self._reservations(bundle, resolver, clock),
            forwarder=self.forwarder,
            production=settings.production,
            inbox=self.inbox,
        )
        tls = InboundTls(settings.inbound_tls) if settings.inbound_tls else None
        self.tls = tls
        self.webhooks = Listener(self._app(admin=False), settings.listen, tls)
        self.admin = Listener(self._app(admin=True), settings.admin)
        self._inbox_forwarder: InboxForwarder | None = None
        self._background: list[asyncio.Task[Any]] = []

    async def start(self) -> None:
        """Start the listeners and loops. Raises StartRefused when an address is in use."""
        await self.admin.start()
        await self.webhooks.start()
        ping = partial(
            keep_pinging,
            self.channel,
            self.health,
            token=self.settings.token,
            observe=self._record_ping,
            on_ready=self.breaker.half_open,
        )
        self._run("ping", ping)
        self._run("channel-files", self.channel.watch_files)
        if self.tls is not None:
            self._run("tls-files", self.tls.watch)
        if self.inbox is not None:
            self._inbox_forwarder = InboxForwarder(
                self.inbox,
                self.forwarder,
                self.metrics,
                lambda: self.compiled.limits.forward_timeout_s,
            )
            self._inbox_forwarder.start()

    def apply(self, bundle: Bundle) -> None:
        """Use another bundle for new requests; requests in progress keep theirs."""
        self.compiled = _compile(self.settings, bundle)
        self.metrics.expect(bundle)
        self.limiter.configure(self.compiled.limits.rates)
        self.breaker.limits = self.compiled.limits.breaker
        self.webhook_secrets.forget()

    async def stop(self, *, listening_on_s: float = LISTENING_ON_S) -> None:
        """Become not ready at once, close the port after 2 s, and end within 25 s."""
        self.health.terminating = True
        await asyncio.sleep(listening_on_s)
        await self.webhooks.stop_listening()
        await self.webhooks.drain(DRAIN_S)
        if self._inbox_forwarder is not None:
            await self._inbox_forwarder.stop()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self.forwarder.close()
        await self.channel.close(_CHANNEL_GRACE_S)
        await self.pipeline.reservations.close()
        await self.admin.stop_listening()
        await self.admin.drain(_CHANNEL_GRACE_S)
        self.webhook_secrets.close()
        if self.inbox is not None:
            self.inbox.close()

    def _app(self, *, admin: bool) -> GatewayApplication:
        return GatewayApplication(
            pipeline=self.pipeline,
            compiled=lambda: self.compiled,
            limiter=self.limiter,
            health=self.health,
            metrics=self.metrics,
            admin=admin,
        )

    def _record_ping(self, status: str, seconds: float) -> None:
        self.metrics.calls.inc("Ping", status)
        self.metrics.call_durations.observe(seconds, "Ping")

    def _run(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        self._background.append(asyncio.create_task(keep_running(name, work)))

    def _notes(self) -> list[str]:
        failing = [f"secret of {name}: {why}" for name, why in self.webhook_secrets.failing.items()]
        return [*failing, *map(str, self.compiled.bundle.disabled_rules)]

    def _refusals(self) -> list[str]:
        if self.breaker.state is not BreakerState.OPEN:
            return []
        return [f"the circuit breaker is open for {self.breaker.wait_s()} s at most"]

    def _reservations(
        self, bundle: Bundle, resolver: WebhookSecretResolver, clock: Callable[[], float]
    ) -> Reservations:
        shared = None
        name = gateway_redis(bundle)
        options = bundle.datasource(name).options if name else None
        if isinstance(options, RedisOptions):
            try:
                client = open_redis(options, resolver)
            except SecretError as error:
                raise StartRefused([f"datasource {name}: {error}"]) from None
            shared = RedisReplay(client, clock, self.metrics.replay_store_errors.inc)
        elif self.settings.production:
            log.warning(
                "replay records are kept in this process only: name a redis datasource in "
                "gateway_nonce_datasource",
                extra={"event": "replay_records_in_memory"},
            )
        return Reservations(MemoryReplay(clock), shared, clock)


def run() -> None:
    """Serve until SIGTERM or SIGINT; exit with 78 or 69 when the start is refused."""
    with refusing():
        variables = process_environment()
        settings = read_settings(variables)
        configure_logging(settings.log_level)
        disable_created_metrics()  # type: ignore[no-untyped-call]
        _raise_descriptor_limit()
        collect_garbage_less()
        uvloop.run(_serve(settings, variables))


async def _serve(settings: GatewaySettings, variables: Mapping[str, str]) -> None:
    exports = ProcessTelemetry(settings.exports)
    try:
        await _run(settings, variables)
    finally:
        await asyncio.to_thread(exports.stop, _TELEMETRY_STOP_S)


async def _run(settings: GatewaySettings, variables: Mapping[str, str]) -> None:
    resolver = SecretResolver(VaultClient, variables=variables)
    file = str(settings.bundle.path)
    bundles = BundleFile.load(settings.bundle, bundle_hooks(Process.GATEWAY, resolver, file=file))
    gateway = Gateway(settings, bundles.bundle, resolver)
    resolver.on_fetch(
        lambda manager, outcome: gateway.metrics.secrets.labels(manager, outcome).inc()
    )
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    loop.add_signal_handler(signal.SIGHUP, bundles.wake)

    def apply_changed(bundle: Bundle) -> None:
        loop.call_soon_threadsafe(gateway.apply, bundle)

    bundles.on_change(apply_changed)
    await gateway.start()
    bundles.watch()
    log.info("the gateway serves", extra={"event": "started", "port": gateway.webhooks.port})
    await ended.wait()
    bundles.stop()
    await gateway.stop()
    resolver.close()


def _compile(settings: GatewaySettings, bundle: Bundle) -> CompiledBundle:
    """Compile the bundle. Raises StartRefused for a platform without a secret in production."""
    if settings.production:
        bare = [each.name for each in bundle.platforms if not webhook_secrets(each)]
        if bare:
            raise StartRefused(
                [f"platform {name}: secret: required with APP_ENV=production" for name in bare]
            )
    return compile_bundle(bundle, settings.overrides)


def collect_garbage_less() -> None:
    """Collect garbage less often: a large payload is thousands of objects without cycles."""
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 20)


def _raise_descriptor_limit() -> None:
    """Raise the limit on file descriptors: each connection needs one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
