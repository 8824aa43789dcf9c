"""The fields at the top of the bundle, of the gateway's limits and of the schema registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any, Final

from readers.tree import Kind
from sync_stack.core.bundle.diagnostics import Diagnostics, LocatedValue
from sync_stack.core.bundle.fields import Field, Group, ParsedFields, Table
from sync_stack.core.bundle.file_maps import relative_path
from sync_stack.core.bundle.model import Bundle, GatewayLimits, Rate, SchemaRegistry
from sync_stack.core.bundle.values import (
    INVALID,
    NAME,
    TEXT,
    Anything,
    Checked,
    Duration,
    Listed,
    Mapped,
    Number,
    Text,
    Whole,
    expect,
)

DEFAULT_BODY_BYTES: Final = 10 * 2**20
MAX_BODY_BYTES: Final = 104_857_600
MAX_TAGS: Final = 10


def cidr(text: str) -> str:
    """Raises ValueError."""
    try:
        return str(ip_network(text, strict=False))
    except ValueError:
        raise ValueError(f'"{text[:60]}" is no network such as 10.0.0.0/8') from None


def folder(text: str) -> str:
    """A path inside a repository; empty is its root. Raises ValueError."""
    return relative_path(text.rstrip("/")) if text.strip("/") else ""


def _entries(spot: LocatedValue, findings: Diagnostics) -> Any:
    """The spot itself, of a list that is not empty: its entries are read later."""
    if not expect(spot, findings, "a list", Kind.LIST):
        return INVALID
    if not spot.tree.items:
        findings.error(spot, "out_of_range", "expected at least one entry")
        return INVALID
    return spot


_RATE: Final = Table(
    title="gateway rate",
    fields=(
        Field(name="rate", value=Number(0.001, 1e6), required=True, words="Requests a second"),
        Field(name="burst", value=Whole(1, 10**7), required=True, words="At once"),
    ),
)
_RATES: Final = Table(
    title="gateway rate_limit",
    fields=(
        Field(name="global", value=Group(_RATE), default="100 / 200"),
        Field(name="per_ip", value=Group(_RATE), default="20 / 40"),
        Field(name="per_key", value=Group(_RATE), default="10 / 20"),
    ),
)
_BREAKER: Final = Table(
    title="gateway breaker",
    fields=(
        Field(name="failures", value=Whole(1, 1000), default="5"),
        Field(name="open_for", value=Duration(low=0.1, high=3600), default="30s"),
        Field(name="probes", value=Whole(1, 100), default="1"),
        Field(name="successes", value=Whole(1, 1000), default="3"),
    ),
)
GATEWAY: Final = Table(
    title="gateway",
    model=GatewayLimits,
    fields=(
        Field(
            name="rate_limit",
            value=Group(_RATES),
            default="–",
            words="`global`, `per_ip`, `per_key`: {`rate`*, `burst`*}; 100/200, 20/40, 10/20",
        ),
        Field(
            name="breaker",
            value=Group(_BREAKER),
            default="–",
            words="`failures` 5, `open_for` 30s, `probes` 1, `successes` 3",
        ),
        Field(
            name="replay_window",
            value=Duration(low=1, high=86_400),
            into="replay_window_s",
            words="How long a delivery counts as seen",
        ),
        Field(
            name="forward_timeout",
            value=Duration(low=0.1, high=20),
            into="forward_timeout_s",
            words="Deadline of the call to the orchestrator",
        ),
        Field(
            name="trusted_proxies",
            value=Listed(Checked("network", cidr)),
            words="Whose X-Forwarded-For counts",
        ),
    ),
)
SCHEMA_REGISTRY: Final = Table(
    title="schema_registry",
    model=SchemaRegistry,
    fields=(
        Field(name="platform", value=NAME, required=True, words="Name of a platform"),
        Field(
            name="repo",
            value=Text(words="owner/name", pattern=r"[^\s/*?]+(/[^\s/*?]+)+"),
            required=True,
        ),
        Field(name="branch", value=TEXT),
        Field(name="path", value=Checked("path", folder)),
        Field(name="secret_manager", value=NAME),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A field of the bundle that names a datasource of one of these kinds."""

    name: str
    kinds: tuple[str, ...]
    tag_name: str  # of global_tags, which may hold its tag
    words: str
    aliases: tuple[str, ...] = ()


REFERENCES: Final = (
    Reference(
        name="task_broker_datasource",
        kinds=("redis",),
        tag_name="celery_broker",
        aliases=("celery_broker_datasource",),
        words="Wakes task workers. `CELERY_BROKER_URL`, when set, wins. Unset: the orchestrator "
        "executes tasks itself",
    ),
    Reference(
        name="task_backend_datasource",
        kinds=("redis", "mongo"),
        tag_name="celery_backend",
        aliases=("celery_backend_datasource",),
        words="Receives a published copy of every task record",
    ),
    Reference(
        name="watcher_state_datasource",
        kinds=("redis", "mongo"),
        tag_name="watcher_state_redis",
        words="The watcher's own state. Unset: the primary store",
    ),
    Reference(
        name="gateway_nonce_datasource",
        kinds=("redis",),
        tag_name="gateway_nonce_redis",
        words="Replay records. Unset: the broker datasource, else the process's memory",
    ),
)
_ENTRIES: Final = Anything("list", _entries)
_IGNORED: Final = Anything("any", lambda spot, _findings: spot)
TOP: Final = Table(
    title="bundle",
    model=Bundle,
    fields=(
        Field(name="platforms", value=_ENTRIES, required=True, words="One-key maps, kind → fields"),
        Field(
            name="datasources", value=_ENTRIES, required=True, words="One-key maps, kind → fields"
        ),
        Field(name="rules", value=_ENTRIES, required=True, words="At least one"),
        *(
            Field(
                name=reference.name,
                aliases=reference.aliases,
                value=NAME,
                words=f"{' or '.join(reference.kinds)}. {reference.words}",
            )
            for reference in REFERENCES
        ),
        Field(
            name="max_webhook_body_bytes",
            value=Whole(0, MAX_BODY_BYTES),
            words="0 means the default",
        ),
        Field(name="gateway", value=Group(GATEWAY), default="–", words="Limits of the gateway"),
        Field(
            name="secret_managers",
            value=_ENTRIES,
            words="One-key maps, `vault` → fields",
        ),
        Field(
            name="schema_registry",
            value=Group(SCHEMA_REGISTRY),
            words="Repository with schemas",
        ),
        Field(
            name="global_tags",
            value=Mapped(TEXT, at_most=MAX_TAGS),
            words="Copied to the metadata of every record; at most 10",
        ),
        *(
            Field(name=name, value=_IGNORED, no_effect=True, default="–", words="No effect")
            for name in ("monitoring", "auth", "loaded_at", "watcher_leader_election_datasource")
        ),
    ),
)
_BREAKER_NAMES: Final[Mapping[str, str]] = {
    "failures": "breaker_failures",
    "open_for": "breaker_open_s",
    "probes": "breaker_probes",
    "successes": "breaker_successes",
}


def build_limits(given: ParsedFields | None) -> GatewayLimits:
    if given is None:
        return GatewayLimits()
    values = dict(given.values)
    for name, rate in values.pop("rate_limit", _NOTHING).values.items():
        values[f"rate_{name}"] = Rate(**rate.values)
    for name, value in values.pop("breaker", _NOTHING).values.items():
        values[_BREAKER_NAMES[name]] = value
    return GatewayLimits(**values)


@dataclass(frozen=True, slots=True)
class _Nothing:
    values: Mapping[str, Any]


_NOTHING: Final = _Nothing({})
