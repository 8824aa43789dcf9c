"""Redis: a hash, a string for each key, one JSON text, or a hash of JSON texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from sync_stack.core.bundle.datasources import (
    DatasourceKind,
    DatasourceOptions,
    UpdateStrategy,
    datasource_kinds,
    join_hosts,
)
from sync_stack.core.bundle.fields import ParsedFields, input_only, option
from sync_stack.core.bundle.rules import KeyFormat
from sync_stack.core.bundle.secrets import SECRET, USER_NAME, SecretRef
from sync_stack.core.bundle.values import (
    FLAG,
    HOST,
    HOSTS,
    NAME,
    OPTIONAL_TEXT,
    PATH_OR_PEM,
    PORT,
    RISKY,
    TEXT,
    choice,
    duration,
    text,
    whole,
)
from sync_stack.core.templates import NAMES, render

HASH_TAG: Final = re.compile(r"\{[^{}]+\}")


class RedisMode(StrEnum):
    STANDALONE = "STANDALONE"
    CLUSTER = "CLUSTER"
    SENTINEL = "SENTINEL"


class RedisStructure(StrEnum):
    STRING = "STRING"
    HASH = "HASH"
    JSON = "JSON"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisOptions(DatasourceOptions):
    """`hosts` are `host:port`, at least one; several for CLUSTER and SENTINEL."""

    host: ClassVar = input_only(HOST, shown='"localhost"')
    port: ClassVar = input_only(PORT, shown="6379")
    hosts: tuple[str, ...] = option(
        HOSTS, ("localhost:6379",), "`host:port` each, in place of `host`", shown="–"
    )
    db: int = option(whole(0, 15), 0, aliases="database")
    mode: RedisMode = option(
        choice(RedisMode, "DEPLOYMENT_MODE_ MODE_", numbers=range(4)),
        RedisMode.STANDALONE,
        aliases="deployment_mode",
    )
    sentinel_master: str = option(NAME, "", "Required with SENTINEL")
    username: SecretRef | None = option(USER_NAME, None)
    password: SecretRef | None = option(SECRET, None)
    data_structure: RedisStructure = option(
        choice(RedisStructure, "DATA_STRUCTURE_", numbers=range(4)),
        RedisStructure.HASH,
        "Without it `update_strategy: DOCUMENT` means JSON",
    )
    hash_key: str = option(NAME, "config", "Of the hash, where no template names it")
    key_prefix: str = option(OPTIONAL_TEXT, "")
    env_as_key_prefix: bool = option(FLAG, False, "Separator and environment behind it")
    key_separator: str = option(text("a separator", r"[!-~]{1,8}"), ":")
    ttl_s: float = option(
        duration(0), 0.0, "0: for ever; with `self_heal` it warns `risky_setting`", name="ttl"
    )
    enable_tls: bool = option(FLAG, False)
    tls_ca_cert: str = option(TEXT, "", PATH_OR_PEM, aliases="tls_ca")
    tls_client_cert: str = option(TEXT, "", aliases="tls_cert")
    tls_client_key: str = option(TEXT, "", aliases="tls_key")
    insecure_skip_verify: bool = option(FLAG, False, RISKY)
    max_connections: int = option(whole(1, 10_000), 20)
    pipeline_batch_size: int = option(whole(1, 10_000), 5000)

    @classmethod
    def check(cls, parsed: ParsedFields) -> None:
        parsed.exclude("hosts", "host")
        parsed.exclude("hosts", "port")
        mode = parsed.get("mode", RedisMode.STANDALONE)
        if mode is RedisMode.SENTINEL and not parsed.has("sentinel_master"):
            parsed.at("sentinel_master").error("missing_field", "SENTINEL needs its master")
        if mode is RedisMode.STANDALONE and len(parsed.get("hosts", ())) > 1:
            message = "several hosts need mode CLUSTER or SENTINEL"
            parsed.at("hosts").error("mutually_exclusive", message)
        if mode is RedisMode.CLUSTER and parsed.get("db"):
            parsed.at("db").error("mutually_exclusive", "a cluster has db 0 only")
        parsed.together("tls_client_cert", "tls_client_key")
        if not parsed.has("host") and parsed.get("port"):
            parsed.values["host"] = "localhost"
        join_hosts(parsed, 6379)

    @classmethod
    def strategies(cls, parsed: ParsedFields) -> Mapping[str, UpdateStrategy | None]:
        structure = None
        if parsed.get("update_strategy") is UpdateStrategy.DOCUMENT:
            written = parsed.values.setdefault("data_structure", RedisStructure.JSON)
            structure = None if written is RedisStructure.JSON else UpdateStrategy.KEY_VALUE
        elif parsed.get("data_structure") is RedisStructure.JSON:
            structure = UpdateStrategy.DOCUMENT
        return {"data_structure": structure}

    def check_rule(self, rule: ParsedFields, strategy: UpdateStrategy) -> None:
        if self.ttl_s and rule.get("self_heal"):
            message = "keys expire by ttl, and the watcher does not bring them back"
            rule.at("self_heal").warn("risky_setting", message)
        strings = self.data_structure is RedisStructure.STRING
        if not strings or strategy is not UpdateStrategy.KEY_VALUE:
            return
        template = rule.get("destination_template", "")
        name = render(template, dict.fromkeys(NAMES, "x")) if template else self.key_prefix
        if self.mode is RedisMode.CLUSTER and not HASH_TAG.search(name):
            message = "STRING on a cluster needs a hash tag in the destination, such as {{{repo}}}"
            rule.at("destination_template").error("bad_template", message)


REDIS: Final = datasource_kinds.register("redis")(
    DatasourceKind(
        name="redis",
        options=RedisOptions,
        sink="sync_stack.sinks.redis.sink:RedisSink",
        key_formats=(KeyFormat.DOT, KeyFormat.FLAT),
        records={
            UpdateStrategy.KEY_VALUE: "one hash field or one string per key",
            UpdateStrategy.DOCUMENT: "one JSON string",
            UpdateStrategy.FILE: "one hash field with JSON per source file",
        },
    )
)
