"""Settings of the gateway: environment over bundle over default.

(reference: sync-stack 2.8, 2.10)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from kernel.addresses import Network
from sync_stack.configuration.conf import BundleSettings, Environment, bundle_settings
from sync_stack.configuration.startup import StartRefused
from sync_stack.configuration.telemetry import ExportSettings, read_export_settings
from sync_stack.core.bundle.model import Bundle, Rate
from sync_stack.gateway.breaker import BreakerLimits
from sync_stack.gateway.client_address import read_networks
from sync_stack.gateway.rate_limits import RateLimits
from sync_stack.rpc.tls import (
    AUTO_INBOUND,
    CERT,
    KEY,
    TlsFiles,
    client_files,
    generated_pair,
    missing_pair_problem,
    tls_pair,
)

MAX_BODY_BYTES: Final = 100 * 2**20
_INBOUND_CERT: Final = "GATEWAY_TLS_CERT"
_INBOUND_KEY: Final = "GATEWAY_TLS_KEY"
MAX_FORWARD_TIMEOUT_S: Final = 20.0
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a listener; an empty host means every interface."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Limits that the environment sets; None leaves them to the bundle."""

    max_body_bytes: int | None = None
    rate_global: Rate | str | None = None  # "off": no limit
    rate_per_ip: Rate | str | None = None
    rate_per_key: Rate | str | None = None
    breaker_failures: int | None = None
    breaker_open_s: float | None = None
    breaker_probes: int | None = None
    breaker_successes: int | None = None
    replay_window_s: float | None = None
    forward_timeout_s: float | None = None
    trusted_proxies: tuple[Network, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    listen: Address
    admin: Address
    orchestrator: str
    app_env: str
    log_level: str
    bundle: BundleSettings
    grpc_tls: TlsFiles | None = None
    inbound_tls: TlsFiles | None = None
    token: str = ""
    inbox: Path | None = None
    overrides: Overrides = Overrides()
    exports: ExportSettings = field(default_factory=ExportSettings)
    version: str = "dev"
    commit: str = "unknown"

    @property
    def production(self) -> bool:
        return self.app_env == "production"


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveLimits:
    """The limits in effect with one bundle."""

    max_body_bytes: int
    rates: RateLimits
    breaker: BreakerLimits
    replay_window_s: float
    forward_timeout_s: float
    trusted_proxies: tuple[Network, ...]


def read_settings(variables: Mapping[str, str]) -> GatewaySettings:
    """Read the environment. Raises StartRefused with a line for each problem."""
    environment = Environment(variables)
    app_env = environment.app_env("test")
    inbound = tls_pair(environment, _INBOUND_CERT, _INBOUND_KEY)
    if inbound is None and app_env == "production":
        inbound = generated_pair(environment, AUTO_INBOUND, ca=False)
    inbox = environment.text("GATEWAY_INBOX")
    settings = GatewaySettings(
        listen=Address(*environment.address("GATEWAY_ADDR", ":5657")),
        admin=Address(*environment.address("ADMIN_ADDR", ":9090")),
        orchestrator=environment.text("ORCHESTRATOR_ADDR", "localhost:50051"),
        app_env=app_env,
        log_level=environment.log_level(),
        bundle=bundle_settings(environment, app_env=app_env),
        grpc_tls=client_files(environment),
        inbound_tls=inbound,
        token=environment.text("GRPC_SHARED_TOKEN"),
        inbox=Path(inbox) if inbox else None,
        overrides=_overrides(environment),
        exports=read_export_settings(environment, service="gateway"),
        version=environment.text("PARTITA_VERSION", "dev"),
        commit=environment.text("PARTITA_COMMIT", "unknown"),
    )
    problems = [*environment.problems, *_missing_in_production(settings, environment)]
    if problems:
        raise StartRefused(problems)
    return settings


def effective_limits(overrides: Overrides, bundle: Bundle) -> EffectiveLimits:
    given = bundle.gateway

    def rate(override: Rate | str | None, default: Rate) -> Rate | None:
        return _or_default(override, default) if not isinstance(override, str) else None

    trusted = overrides.trusted_proxies
    return EffectiveLimits(
        max_body_bytes=_or_default(overrides.max_body_bytes, bundle.max_webhook_body_bytes),
        rates=RateLimits(
            total=rate(overrides.rate_global, given.rate_global),
            per_ip=rate(overrides.rate_per_ip, given.rate_per_ip),
            per_key=rate(overrides.rate_per_key, given.rate_per_key),
        ),
        breaker=BreakerLimits(
            failures=_or_default(overrides.breaker_failures, given.breaker_failures),
            open_s=_or_default(overrides.breaker_open_s, given.breaker_open_s),
            probes=_or_default(overrides.breaker_probes, given.breaker_probes),
            successes=_or_default(overrides.breaker_successes, given.breaker_successes),
        ),
        replay_window_s=_or_default(overrides.replay_window_s, given.replay_window_s),
        forward_timeout_s=_or_default(overrides.forward_timeout_s, given.forward_timeout_s),
        trusted_proxies=(trusted if trusted is not None else read_networks(given.trusted_proxies)),
    )


def _or_default(value: Value | None, default: Value) -> Value:
    return default if value is None else value


def _overrides(environment: Environment) -> Overrides:
    def whole(name: str, high: int) -> int | None:
        return environment.integer(name, 0, high=high) or None

    def seconds(name: str, high: float) -> float | None:
        if not environment.is_set(name):
            return None
        return environment.duration_s(name, "1s", low=0.1, high=high)

    return Overrides(
        max_body_bytes=whole("GATEWAY_MAX_BODY_BYTES", MAX_BODY_BYTES),
        rate_global=_rate(environment, "GATEWAY_RATE_GLOBAL"),
        rate_per_ip=_rate(environment, "GATEWAY_RATE_PER_IP"),
        rate_per_key=_rate(environment, "GATEWAY_RATE_PER_KEY"),
        breaker_failures=whole("GATEWAY_BREAKER_FAILURES", 10**6),
        breaker_open_s=seconds("GATEWAY_BREAKER_OPEN", 86_400),
        breaker_probes=whole("GATEWAY_BREAKER_PROBES", 1000),
        breaker_successes=whole("GATEWAY_BREAKER_SUCCESSES", 10**6),
        replay_window_s=seconds("GATEWAY_REPLAY_WINDOW", 30 * 86_400),
        forward_timeout_s=seconds("GATEWAY_FORWARD_TIMEOUT", MAX_FORWARD_TIMEOUT_S),
        trusted_proxies=_networks(environment, "GATEWAY_TRUSTED_PROXIES"),
    )


def _rate(environment: Environment, name: str) -> Rate | str | None:
    raw = environment.text(name).strip().lower()
    if not raw or raw == "off":
        return raw or None
    rate, _, burst = raw.partition("/")
    try:
        made = Rate(rate=float(rate), burst=int(burst))
    except ValueError:
        made = Rate(rate=0, burst=0)
    if not 0 < made.rate < 10**9 or not 0 < made.burst < 10**9:
        environment.wrong(name, "expected rate/burst such as 20/40, or off")
        return None
    return made


def _networks(environment: Environment, name: str) -> tuple[Network, ...] | None:
    if not environment.is_set(name):
        return None
    try:
        return read_networks(environment.words(name))
    except ValueError as error:
        environment.wrong(name, f"expected CIDRs: {error}")
        return None


def _missing_in_production(settings: GatewaySettings, environment: Environment) -> list[str]:
    if not settings.production:
        return []
    lines = []
    if settings.inbound_tls is None:
        what = "the certificate that webhooks are received with"
        lines.append(missing_pair_problem(environment, _INBOUND_CERT, _INBOUND_KEY, what=what))
    if settings.grpc_tls is None:
        lines.append(
            missing_pair_problem(environment, CERT, KEY, what="the gateway's client certificate")
        )
    return lines
