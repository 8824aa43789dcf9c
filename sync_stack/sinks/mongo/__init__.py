"""MongoDB: a document for each key, one for all keys, or one for each source file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final
from urllib.parse import unquote

from sync_stack.core.bundle.datasources import (
    DatasourceKind,
    DatasourceOptions,
    UpdateStrategy,
    datasource_kinds,
    join_hosts,
)
from sync_stack.core.bundle.fields import ParsedFields, input_only, option
from sync_stack.core.bundle.secrets import SECRET, USER_NAME, SecretRef
from sync_stack.core.bundle.values import FLAG, HOST, HOSTS, PORT, RISKY, TEXT, text, whole

DEFAULT_PORT: Final = 27017
CONNECTION: Final = re.compile(r"mongodb(\+srv)?://(?:[^@/]*@)?([^/?]+)")
_CREDENTIALS: Final = re.compile(r"//([^/?#]*)@")  # of a connection string, many hosts allowed
Server = tuple[str, int]  # host in lower case and port; "" and 0 where it is not said
_CONNECTION_STRING: Final = text(
    "a connection string (mongodb:// or mongodb+srv://)", r"mongodb(?:\+srv)?://\S+", secret=True
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MongoOptions(DatasourceOptions):
    """`endpoint` (a connection string) or `hosts` (`host:port`), never both."""

    endpoint: str = option(
        _CONNECTION_STRING,
        "",
        "Required, unless `host` or `hosts` name the servers; you may set both if they name the "
        "same servers",
        aliases="uri",
        hidden=True,
    )
    host: ClassVar = input_only(HOST, "With `port`, in place of `endpoint`")
    port: ClassVar = input_only(PORT, "Of `host`", shown="27017")
    hosts: tuple[str, ...] = option(HOSTS, (), "`host:port` each, in place of `endpoint`")
    database: str = option(text("a database", r'[^/\\. "$\0]{1,63}'), "configs")
    collection: str = option(text("a collection", r"[^$\0]{1,120}"), "configs")
    env_as_collection: bool = option(FLAG, False, "`<collection>_<env>`")
    max_pool_size: int = option(whole(1, 1000), 10)
    connect_timeout_ms: ClassVar = input_only(
        whole(100, 10_000), "Another way to write `connect_timeout`"
    )
    username: SecretRef | None = option(USER_NAME, None)
    password: SecretRef | None = option(SECRET, None, "Only with `username`")
    auth_source: str = option(TEXT, "")
    auth_mechanism: str = option(TEXT, "")
    replica_set: str = option(TEXT, "")
    ssl: bool = option(FLAG, False, aliases="tls_enabled")
    ssl_ca_path: str = option(TEXT, "", aliases="tls_ca_file")
    ssl_cert_path: str = option(TEXT, "")
    ssl_key_path: str = option(TEXT, "")
    ssl_allow_invalid_certificates: bool = option(FLAG, False, RISKY)

    @classmethod
    def check(cls, parsed: ParsedFields) -> None:
        _compare_hosts(parsed)
        parsed.exclude("hosts", "host")
        if not any(parsed.has(name) for name in ("endpoint", "host", "hosts")):
            parsed.complete = False
            parsed.at("endpoint").error("missing_field", "endpoint, host or hosts is required")
        if not parsed.has("endpoint"):
            parsed.needs("port", "host")
        parsed.needs("password", "username")
        parsed.needs("ssl_key_path", "ssl_cert_path")
        parsed.exclude("connect_timeout_s", "connect_timeout_ms")
        if milliseconds := parsed.get("connect_timeout_ms"):
            parsed.values["connect_timeout_s"] = milliseconds / 1000
        join_hosts(parsed, DEFAULT_PORT)

    def texts_to_mask(self) -> Iterator[str]:
        if password := password_in(self.endpoint):
            yield password


def _compare_hosts(parsed: ParsedFields) -> None:
    """Drop hosts beside a connection string; record an error when they are not its servers."""
    if not parsed.has("endpoint"):
        return
    servers = servers_in(parsed.get("endpoint", ""))
    host, port = parsed.take("host", ""), parsed.take("port", 0)
    named = [("hosts", server_of(text)) for text in parsed.take("hosts", ())]
    if host or port:
        named.append(("host" if host else "port", (host.lower(), port)))
    for name, server in named:
        if servers and not is_among(server, servers):
            message = f"{name} and endpoint name different servers"
            parsed.at(name).error("mutually_exclusive", message)


def server_of(text: str) -> Server:
    """Split `host`, `host:port`, `[address]` or `[address]:port`."""
    host, _, port = text.rpartition(":")
    if host and port.isdigit() and (":" not in host or host.endswith("]")):
        return host.strip("[]").lower(), int(port)
    return text.strip("[]").lower(), 0


def servers_in(connection: str) -> frozenset[Server]:
    """Return the servers of a connection string of MongoDB; empty for another text."""
    found = CONNECTION.match(connection)
    if not found:
        return frozenset()
    servers = [server_of(text) for text in found[2].split(",")]
    default = 0 if found[1] else DEFAULT_PORT  # the records of `+srv` say the ports
    return frozenset((host, port or default) for host, port in servers)


def is_among(server: Server, servers: frozenset[Server]) -> bool:
    """Check host and port; one that is not known fits everything."""
    host, port = server
    return any(
        host in ("", known) and (not port or not known_port or port == known_port)
        for known, known_port in servers
    )


def password_in(connection: str) -> str:
    """Return the decoded password inside a connection string; empty when there is none."""
    match = _CREDENTIALS.search(connection)
    return unquote(match[1].partition(":")[2]) if match else ""


datasource_kinds.register("mongo")(
    DatasourceKind(
        name="mongo",
        options=MongoOptions,
        sink="sync_stack.sinks.mongo.sink:MongoSink",
        records={
            UpdateStrategy.KEY_VALUE: "one document per key",
            UpdateStrategy.DOCUMENT: "one document",
            UpdateStrategy.FILE: "one document per source file",
        },
    )
)
