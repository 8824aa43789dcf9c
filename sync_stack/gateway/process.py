"""`run_gateway`: puts the gateway together, reloads its bundle, and stops it in steps."""

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
from sync_stack.configuration.secrets import SecretError, SecretResolver, needs_of
from sync_stack.configuration.startup import StartRefused, refusing, unavailable
from sync_stack.configuration.telemetry import Telemetry
from sync_stack.configuration.vault import VaultClient
from sync_stack.core.bundle.model import Bundle, RedisOptions
from sync_stack.core.bundle.secret_use import Process, gateway_redis, webhook_secrets
from sync_stack.gateway.breaker import Breaker
from sync_stack.gateway.conf import GatewaySettings, read_settings
from sync_stack.gateway.deliveries import DeliveryPipeline
from sync_stack.gateway.forwarding import Forwarder
from sync_stack.gateway.http import App
from sync_stack.gateway.inbox import Inbox, InboxUnusable
from sync_stack.gateway.inbox_forwarder import InboxForwarder
from sync_stack.gateway.listener import InboundTls, Listener
from sync_stack.gateway.metrics import Metrics
from sync_stack.gateway.rate_limits import MemoryBudget, RateLimiter
from sync_stack.gateway.redis_client import open_redis
from sync_stack.gateway.replay_memory import MemoryReplay
from sync_stack.gateway.replay_redis import RedisReplay
from sync_stack.gateway.reservations import Reservations
from sync_stack.gateway.routes import CompiledBundle, compile_bundle
from sync_stack.gateway.webhook_secrets import Resolver, WebhookSecrets
from sync_stack.rpc.channel import OrchestratorChannel
from sync_stack.rpc.readiness import Health, keep_asking
from sync_stack.rpc.tls import TlsUnreadable

log: Final = logging.getLogger("partita.sync.gateway")

LISTENING_ON_S: Final = 2.0  # after SIGTERM: balancers see "not ready" first
DRAIN_S: Final = 20.0
_CHANNEL_GRACE_S: Final = 1.0
_LAST_WORDS_S: Final = 1.0  # of the 25 s that a stop may take
_DESCRIPTORS: Final = 20_000
_COLLECT_AFTER: Final = 20_000  # objects


class Gateway:
    """All parts of one gateway. Made and used on one event loop."""

    def __init__(self, settings: GatewaySettings, bundle: Bundle, resolver: Resolver) -> None:
        self.settings = settings
        self.generation = _compiled(settings, bundle)
        self.metrics = Metrics(version=settings.version, commit=settings.commit)
        self.metrics.expect(bundle)
        clock = time.monotonic
        limits = self.generation.limits
        self.limiter = RateLimiter(limits.rates, clock)
        self.breaker = Breaker(limits.breaker, clock, self.metrics.breaker_changed)
        self.keys = WebhookSecrets(resolver, clock)
        self.health = Health(self._notes, clock)
        self.channel = _channel(settings)
        self.forwarder = Forwarder(self.channel, self.breaker, self.metrics, token=settings.token)
        self.inbox = _inbox(settings)
        self.gate = DeliveryPipeline(
            keys=self.keys,
            held=MemoryBudget(),
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
        """Raises StartRefused when an address is in use."""
        await self.admin.start()
        await self.webhooks.start()
        asking = partial(
            keep_asking,
            self.channel,
            self.health,
            token=self.settings.token,
            observe=self._pinged,
        )
        self._run("ping", asking)
        self._run("channel-files", self.channel.watch_files)
        if self.tls is not None:
            self._run("tls-files", self.tls.watch)
        if self.inbox is not None:
            self._inbox_forwarder = InboxForwarder(
                self.inbox,
                self.forwarder,
                self.metrics,
                lambda: self.generation.limits.forward_timeout_s,
            )
            self._inbox_forwarder.start()

    def apply(self, bundle: Bundle) -> None:
        """Requests that are under way keep the generation that they began with."""
        self.generation = _compiled(self.settings, bundle)
        self.metrics.expect(bundle)
        self.limiter.configure(self.generation.limits.rates)
        self.breaker.limits = self.generation.limits.breaker
        self.keys.forget()

    async def stop(self, *, listening_on_s: float = LISTENING_ON_S) -> None:
        """Not ready at once, closed after 2 s, and done within 25 s."""
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
        await self.gate.reservations.close()
        await self.admin.stop_listening()
        await self.admin.drain(_CHANNEL_GRACE_S)
        self.keys.close()
        if self.inbox is not None:
            self.inbox.close()

    def _app(self, *, admin: bool) -> App:
        return App(
            gate=self.gate,
            generation=lambda: self.generation,
            limiter=self.limiter,
            health=self.health,
            metrics=self.metrics,
            admin=admin,
        )

    def _pinged(self, status: str, seconds: float) -> None:
        self.metrics.calls.inc("Ping", status)
        self.metrics.call_durations.observe(seconds, "Ping")

    def _run(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        self._background.append(asyncio.create_task(keep_running(name, work)))

    def _notes(self) -> list[str]:
        failing = [f"secret of {name}: {why}" for name, why in self.keys.failing.items()]
        disabled = [
            f"rule {rule.name} is disabled: {rule.reason}"
            for rule in self.generation.bundle.disabled_rules
        ]
        return failing + disabled

    def _reservations(
        self, bundle: Bundle, resolver: Resolver, clock: Callable[[], float]
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
    """The command: serves until SIGTERM or SIGINT; exits 78 or 69 when it cannot start."""
    with refusing():
        variables = process_environment()
        settings = read_settings(variables)
        configure_logging(settings.log_level)
        disable_created_metrics()  # type: ignore[no-untyped-call]
        _raise_descriptor_limit()
        collect_less()
        uvloop.run(_serve(settings, variables))


async def _serve(settings: GatewaySettings, variables: Mapping[str, str]) -> None:
    observing = Telemetry(settings.observing)
    try:
        await _run(settings, variables)
    finally:
        await asyncio.to_thread(observing.stop, _LAST_WORDS_S)


async def _run(settings: GatewaySettings, variables: Mapping[str, str]) -> None:
    resolver = SecretResolver(VaultClient, variables=variables)
    file = str(settings.bundle.path)
    bundles = BundleFile.opened(settings.bundle, needs_of(Process.GATEWAY, resolver, file=file))
    gateway = Gateway(settings, bundles.bundle, resolver)
    resolver.on_fetch(
        lambda manager, outcome: gateway.metrics.secrets.labels(manager, outcome).inc()
    )
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    loop.add_signal_handler(signal.SIGHUP, bundles.wake)
    bundles.on_change(lambda bundle: _apply_soon(loop, gateway, bundle))
    await gateway.start()
    bundles.watch()
    log.info("the gateway serves", extra={"event": "started", "port": gateway.webhooks.port})
    await ended.wait()
    bundles.stop()
    await gateway.stop()
    resolver.close()


def _apply_soon(loop: asyncio.AbstractEventLoop, gateway: Gateway, bundle: Bundle) -> None:
    loop.call_soon_threadsafe(gateway.apply, bundle)


def _compiled(settings: GatewaySettings, bundle: Bundle) -> CompiledBundle:
    """Raises StartRefused for a platform without a secret in production."""
    if settings.production:
        bare = [each.name for each in bundle.platforms if not webhook_secrets(each)]
        if bare:
            raise StartRefused(
                [f"platform {name}: secret: required with APP_ENV=production" for name in bare]
            )
    return compile_bundle(bundle, settings.overrides)


def _channel(settings: GatewaySettings) -> OrchestratorChannel:
    try:
        return OrchestratorChannel(settings.orchestrator, settings.grpc_tls)
    except TlsUnreadable as error:
        raise StartRefused([f"GRPC_TLS_CERT, GRPC_TLS_KEY, GRPC_TLS_CA: {error}"]) from None


def _inbox(settings: GatewaySettings) -> Inbox | None:
    if settings.inbox is None:
        return None
    try:
        return Inbox(settings.inbox)
    except InboxUnusable as error:
        raise unavailable(str(error)) from None


def collect_less() -> None:
    """A large payload is thousands of objects without cycles: no reason to look at all others."""
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 20)


def _raise_descriptor_limit() -> None:
    """One connection is one descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
