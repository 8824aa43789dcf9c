"""The bundle as every process of the sync stack works from it. Times are seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from typing import ClassVar, Final, TypeVar

from readers.tree import Kind
from sync_stack.core.bundle.datasources import Datasource
from sync_stack.core.bundle.diagnostics import LocatedValue
from sync_stack.core.bundle.fields import (
    BundleField,
    FieldTable,
    group,
    input_only,
    no_effect,
    option,
    table_of,
)
from sync_stack.core.bundle.file_maps import relative_path
from sync_stack.core.bundle.platforms import Platform
from sync_stack.core.bundle.rules import Rule
from sync_stack.core.bundle.secret_managers import SecretManager
from sync_stack.core.bundle.values import (
    NAME,
    TEXT,
    ValueType,
    duration,
    expect,
    list_of,
    map_of,
    number,
    parsed_text,
    text,
    whole,
)

DEFAULT_BODY_BYTES: Final = 10 * 2**20
MAX_BODY_BYTES: Final = 104_857_600
MAX_TAGS: Final = 10


def cidr(written: str) -> str:
    """Return a network; raise ValueError."""
    try:
        return str(ip_network(written, strict=False))
    except ValueError:
        raise ValueError(f'"{written[:60]}" is not a network such as 10.0.0.0/8') from None


def folder(written: str) -> str:
    """Return a path inside a repository; empty is its root. Raise ValueError."""
    return relative_path(written.rstrip("/")) if written.strip("/") else ""


def _read_entries(located: LocatedValue) -> LocatedValue:
    """Return a list that is not empty; its entries are read later."""
    expect(located, "a list", Kind.LIST)
    if not located.tree.items:
        raise located.error("out_of_range", "expected at least one entry")
    return located


_ENTRIES: Final = ValueType("list", _read_entries)
_ANY: Final = ValueType("any", lambda located: located)


@dataclass(frozen=True, slots=True, kw_only=True)
class DisabledRule:
    """A rule that this build cannot serve: its route answers 404, readiness names it."""

    name: str
    segment: str
    reason: str

    def __str__(self) -> str:
        return f"rule {self.name} is disabled: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A token bucket: `rate` a second, `burst` at most at once."""

    rate: float = option(number(0.001, 1e6), description="Requests a second")
    burst: int = option(whole(1, 10**7), description="At once")


_RATE: Final = group(table_of("gateway rate", Rate))
_RATE_LIMIT: Final = FieldTable(
    "gateway rate_limit",
    tuple(
        BundleField(name=name, attribute=f"rate_{name}", type=_RATE)
        for name in ("global", "per_ip", "per_key")
    ),
)
_BREAKER: Final = FieldTable(
    "gateway breaker",
    (
        BundleField(name="failures", attribute="breaker_failures", type=whole(1, 1000)),
        BundleField(name="open_for", attribute="breaker_open_s", type=duration(0.1, 3600)),
        BundleField(name="probes", attribute="breaker_probes", type=whole(1, 100)),
        BundleField(name="successes", attribute="breaker_successes", type=whole(1, 1000)),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLimits:
    """Limits of the gateway; the gateway's environment wins over the bundle."""

    rate_limit: ClassVar = input_only(
        group(_RATE_LIMIT),
        "`global`, `per_ip`, `per_key`: {`rate`*, `burst`*}; 100/200, 20/40, 10/20",
        spread=True,
    )
    rate_global: Rate = Rate(rate=100, burst=200)
    rate_per_ip: Rate = Rate(rate=20, burst=40)
    rate_per_key: Rate = Rate(rate=10, burst=20)
    breaker: ClassVar = input_only(
        group(_BREAKER), "`failures` 5, `open_for` 30s, `probes` 1, `successes` 3", spread=True
    )
    breaker_failures: int = 5
    breaker_open_s: float = 30.0
    breaker_probes: int = 1
    breaker_successes: int = 3
    replay_window_s: float = option(
        duration(1, 86_400), 300.0, "How long a delivery counts as seen", name="replay_window"
    )
    forward_timeout_s: float = option(
        duration(0.1, 20), 8.0, "Deadline of the call to the orchestrator", name="forward_timeout"
    )
    trusted_proxies: tuple[str, ...] = option(
        list_of(parsed_text("network", cidr)), (), "Whose X-Forwarded-For counts"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRegistry:
    """The repository that holds schemas of configuration files."""

    platform: str = option(NAME, description="Name of a platform")
    repo: str = option(text("owner/name", r"[^\s/*?]+(/[^\s/*?]+)+"))
    branch: str = option(TEXT, "main")
    path: str = option(parsed_text("path", folder), "")
    secret_manager: str = option(NAME, "")


GATEWAY: Final = table_of("gateway", GatewayLimits)
SCHEMA_REGISTRY: Final = table_of("schema_registry", SchemaRegistry)
Entry = TypeVar("Entry", Platform, Datasource, SecretManager, Rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A valid bundle. `digest` is the SHA-256 (hex) of the file it was read from.

    Datasource references are names of `datasources`; empty where the bundle leaves them open.
    """

    platforms: tuple[Platform, ...] = option(_ENTRIES, description="One-key maps, kind → fields")
    datasources: tuple[Datasource, ...] = option(
        _ENTRIES, description="One-key maps, kind → fields"
    )
    rules: tuple[Rule, ...] = option(_ENTRIES, description="At least one")
    disabled_rules: tuple[DisabledRule, ...] = ()
    task_broker_datasource: str = option(
        NAME,
        "",
        "redis. Wakes task workers. `CELERY_BROKER_URL`, when set, wins. Unset: the orchestrator "
        "executes tasks itself",
        aliases="celery_broker_datasource",
    )
    task_backend_datasource: str = option(
        NAME,
        "",
        "redis or mongo. Receives a published copy of every task record",
        aliases="celery_backend_datasource",
    )
    watcher_state_datasource: str = option(
        NAME, "", "redis or mongo. The watcher's own state. Unset: the primary store"
    )
    gateway_nonce_datasource: str = option(
        NAME, "", "redis. Replay records. Unset: the broker datasource, else the process's memory"
    )
    max_webhook_body_bytes: int = option(
        whole(0, MAX_BODY_BYTES), DEFAULT_BODY_BYTES, "0 means the default"
    )
    gateway: GatewayLimits = option(
        group(GATEWAY), GatewayLimits(), "Limits of the gateway", shown="–"
    )
    secret_managers: tuple[SecretManager, ...] = option(
        _ENTRIES, (), "One-key maps, `vault` → fields"
    )
    schema_registry: SchemaRegistry | None = option(
        group(SCHEMA_REGISTRY), None, "Repository with schemas"
    )
    global_tags: Mapping[str, str] = option(
        map_of(TEXT, at_most=MAX_TAGS), dict, "Copied to the metadata of every record; at most 10"
    )
    monitoring: ClassVar = no_effect(_ANY)
    auth: ClassVar = no_effect(_ANY)
    loaded_at: ClassVar = no_effect(_ANY)
    watcher_leader_election_datasource: ClassVar = no_effect(_ANY)
    digest: str = ""

    def platform(self, name: str) -> Platform:
        """Raise KeyError for an unknown name, as all of these."""
        return _find_named(self.platforms, name)

    def datasource(self, name: str) -> Datasource:
        return _find_named(self.datasources, name)

    def secret_manager(self, name: str) -> SecretManager:
        return _find_named(self.secret_managers, name)

    def rule(self, name: str) -> Rule:
        """Raise KeyError for a disabled rule, too."""
        return _find_named(self.rules, name)

    def find_rule(self, name: str) -> Rule | None:
        """Return a rule in use; None for a disabled or unknown one."""
        return next((rule for rule in self.rules if rule.name == name), None)

    def rules_of_segment(self, segment: str) -> tuple[Rule, ...]:
        """Return the rules behind one route, in the bundle's order; empty for an unknown one."""
        return tuple(rule for rule in self.rules if rule.segment == segment)


TOP: Final = table_of("bundle", Bundle)


def _find_named(entries: tuple[Entry, ...], name: str) -> Entry:
    for entry in entries:
        if entry.name == name:
            return entry
    raise KeyError(name)
