"""Datasources: what all of them have in common, and the port by which their kinds register.

A kind of datasource is one module or package in `sync_stack/sinks` that registers a
`DatasourceKind`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final

from kernel.registry import Registry
from sync_stack.core.bundle.diagnostics import LocatedValue, Location
from sync_stack.core.bundle.fields import FieldTable, ParsedFields, option, read_fields, table_of
from sync_stack.core.bundle.rules import SINK_FLAGS, KeyFormat
from sync_stack.core.bundle.values import NAME, TAG, choice, duration


class UpdateStrategy(StrEnum):
    """What a sink stores as one record: a key, all keys, or a file."""

    KEY_VALUE = "KEY_VALUE"
    DOCUMENT = "DOCUMENT"
    FILE = "FILE"


class OutputShape(StrEnum):
    FLAT = "flat"
    NESTED = "nested"


class OutputTypes(StrEnum):
    STRING = "string"
    NATIVE = "native"


class KeyCase(StrEnum):
    KEEP = "keep"
    UPPER = "upper"
    LOWER = "lower"


class DatasourceOptions:
    """The options of one kind: attributes declared with `option`, and the checks between them."""

    __slots__ = ()

    @classmethod
    def check(cls, parsed: ParsedFields) -> None:
        """Record where the fields of an entry exclude or need each other; complete their values."""

    @classmethod
    def strategies(cls, _parsed: ParsedFields) -> Mapping[str, UpdateStrategy | None]:
        """Return the strategies that fields other than `update_strategy` ask for, by field."""
        return {}

    def check_rule(self, rule: ParsedFields, strategy: UpdateStrategy) -> None:
        """Record what a rule that writes here must not say."""

    def texts_to_mask(self) -> Iterator[str]:
        """Yield secrets inside other texts; logs mask them, like every SecretRef."""
        return iter(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Datasource:
    """A sink, or what holds tasks, replay records or the watcher's state.

    `update_strategy` is decided: the kind's default and its aliases (one_file_per_key,
    flatten_to_keys, data_structure JSON) are applied.
    """

    name: str
    kind: str
    options: DatasourceOptions
    tag: str = option(TAG, "", "Suffix of the name: `redis-tag`")
    update_strategy: UpdateStrategy = option(
        choice(UpdateStrategy, "UPDATE_STRATEGY_ STRATEGY_", numbers=range(4)),
        UpdateStrategy.KEY_VALUE,
        "What is stored as one record: a key, all keys, a file. 0: the kind's default",
        shown="of the kind, see [Sinks](sync-sinks.md)",
    )
    output_shape: OutputShape = option(
        choice(OutputShape, "OUTPUT_SHAPE_"), OutputShape.FLAT, "Of records that hold many keys"
    )
    output_types: OutputTypes = option(
        choice(OutputTypes, "OUTPUT_TYPES_"),
        OutputTypes.STRING,
        "native: a number or bool where reading it back gives the same spelling",
    )
    secret_manager: str = option(NAME, "", "Holds `ref` secrets of the entry")
    connect_timeout_s: float = option(
        duration(0.1, 10), 5.0, "Of a new connection", name="connect_timeout"
    )
    timeout_s: float = option(
        duration(0.1, 10), 10.0, "Of one operation, retries of the client included", name="timeout"
    )
    location: Location = field(default=Location(), compare=False, repr=False)


COMMON_TABLE: Final = table_of("datasource", Datasource)
UNSUPPORTED: Final = ("zookeeper", "helm", "linux_server", "vercel")


@dataclass(frozen=True, kw_only=True)
class DatasourceKind:
    """What a sink registers: how the bundle describes its datasources, and the sink itself.

    `sink` names a class `package.module:Class`, which is called with a Datasource, its options and
    a function that resolves secrets. Its module is imported when the first sink is opened, so only
    that module imports a client library. `key_formats`: the default first. `records` says for the
    documentation what one record is, by strategy.
    """

    name: str
    options: type[DatasourceOptions]
    sink: str
    records: Mapping[UpdateStrategy, str]
    default_strategy: UpdateStrategy = UpdateStrategy.KEY_VALUE
    key_formats: tuple[KeyFormat, ...] = (KeyFormat.DOT,)
    fencing: bool = True

    @cached_property
    def table(self) -> FieldTable:
        return table_of(self.name, self.options, Datasource)

    @cached_property
    def flags(self) -> frozenset[str]:
        """Return the fields that a rule may override."""
        return frozenset(SINK_FLAGS) & {entry.attribute for entry in self.table.fields}


datasource_kinds: Final[Registry[DatasourceKind]] = Registry(
    "datasource", package="sync_stack.sinks"
)


def read_datasource(kind: str, located: LocatedValue) -> ParsedFields:
    """Read the fields of an entry and check them against one another."""
    known = datasource_kinds[kind]
    parsed = read_fields(known.table, located)
    parsed.warn_unverified("verify_ssl", risky=False)
    parsed.warn_unverified("insecure_skip_verify", risky=True)
    parsed.warn_unverified("ssl_allow_invalid_certificates", risky=True)
    parsed.values["update_strategy"] = _strategy(known, parsed)
    known.options.check(parsed)
    return parsed


def build_datasource(kind: str, name: str, parsed: ParsedFields, manager: str) -> Datasource | None:
    """Return None when something required is wrong; `manager` holds its `ref` secrets."""
    if not parsed.complete:
        return None
    datasource: Datasource = parsed.build(
        Datasource,
        name=name,
        kind=kind,
        options=parsed.build(manager=manager),
        secret_manager=manager if parsed.has("secret_manager") else "",
        location=parsed.located.location,
    )
    return datasource


def _strategy(kind: DatasourceKind, parsed: ParsedFields) -> UpdateStrategy:
    """Return `update_strategy`, or what the kind's own fields say; both must agree."""
    written: UpdateStrategy | None = parsed.get("update_strategy")
    meant = {name: each for name, each in kind.options.strategies(parsed).items() if each}
    for name, strategy in meant.items():
        if written and written is not strategy:
            message = f"{name} means {strategy}, update_strategy says {written}"
            parsed.at(name).error("mutually_exclusive", message)
    return written or next(iter(meant.values()), kind.default_strategy)


def join_hosts(parsed: ParsedFields, port: int) -> None:
    """Make one of `hosts` from `host` and `port`; give hosts without a port the usual one."""
    host, port = parsed.get("host"), parsed.get("port", port)
    if host:
        parsed.values["hosts"] = (f"[{host}]" if ":" in host and "[" not in host else host,)
    if hosts := parsed.get("hosts"):
        parsed.values["hosts"] = tuple(
            each if each.rpartition(":")[2].isdigit() else f"{each}:{port}" for each in hosts
        )
