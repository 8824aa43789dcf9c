"""Datasources built from their fields: which fields exclude or need each other, and defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sync_stack.core.bundle.datasources import (
    TABLES,
    Datasource,
    RedisMode,
    RedisStructure,
    UpdateStrategy,
)
from sync_stack.core.bundle.diagnostics import LocatedValue
from sync_stack.core.bundle.fields import ParsedFields, read_fields
from sync_stack.core.bundle.urls import is_among, server_of, servers_in

_DOCUMENT_KINDS: Final = ("s3", "file")


def read_datasource(kind: str, located: LocatedValue) -> ParsedFields:
    """Read the fields of an entry and check them against one another."""
    parsed = read_fields(TABLES[kind], located)
    parsed.warn_unverified("verify_ssl", risky=False)
    parsed.warn_unverified("insecure_skip_verify", risky=True)
    parsed.warn_unverified("ssl_allow_invalid_certificates", risky=True)
    parsed.values["update_strategy"] = _strategy(kind, parsed)
    _CHECKS[kind](parsed)
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


def _strategy(kind: str, parsed: ParsedFields) -> UpdateStrategy:
    """Return `update_strategy`, or what the kind's own fields say; both must agree."""
    written: UpdateStrategy | None = parsed.get("update_strategy")
    default = UpdateStrategy.DOCUMENT if kind in _DOCUMENT_KINDS else UpdateStrategy.KEY_VALUE
    meant = {name: strategy for name, strategy in _meant(kind, parsed).items() if strategy}
    for name, strategy in meant.items():
        if written and written is not strategy:
            message = f"{name} means {strategy}, update_strategy says {written}"
            parsed.at(name).error("mutually_exclusive", message)
    return written or next(iter(meant.values()), default)


def _meant(kind: str, parsed: ParsedFields) -> dict[str, UpdateStrategy | None]:
    """Return the strategies that fields other than `update_strategy` ask for."""
    structure = None
    if kind == "redis":
        if parsed.get("update_strategy") is UpdateStrategy.DOCUMENT:
            written = parsed.values.setdefault("data_structure", RedisStructure.JSON)
            structure = None if written is RedisStructure.JSON else UpdateStrategy.KEY_VALUE
        elif parsed.get("data_structure") is RedisStructure.JSON:
            structure = UpdateStrategy.DOCUMENT
    by_key = {True: UpdateStrategy.KEY_VALUE, False: UpdateStrategy.DOCUMENT, None: None}
    return {
        "data_structure": structure,
        "one_file_per_key": by_key[parsed.get("one_file_per_key") or None],
        "flatten_to_keys": by_key[parsed.get("flatten_to_keys")],
    }


def _check_mongo(parsed: ParsedFields) -> None:
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
    _join_hosts(parsed, 27017)


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


def _join_hosts(parsed: ParsedFields, port: int) -> None:
    """Make one of `hosts` from `host` and `port`; give hosts without a port the usual one."""
    host, port = parsed.get("host"), parsed.get("port", port)
    if host:
        parsed.values["hosts"] = (f"[{host}]" if ":" in host and "[" not in host else host,)
    if hosts := parsed.get("hosts"):
        parsed.values["hosts"] = tuple(
            each if each.rpartition(":")[2].isdigit() else f"{each}:{port}" for each in hosts
        )


def _check_redis(parsed: ParsedFields) -> None:
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
    parsed.needs("tls_client_cert", "tls_client_key")
    parsed.needs("tls_client_key", "tls_client_cert")
    if not parsed.has("host") and parsed.get("port"):
        parsed.values["host"] = "localhost"
    _join_hosts(parsed, 6379)


def _check_s3(parsed: ParsedFields) -> None:
    parsed.needs("access_key_id", "secret_access_key")
    parsed.needs("secret_access_key", "access_key_id")
    parsed.needs("session_token", "access_key_id")
    by_role = parsed.get("use_iam_role")
    if by_role and parsed.has("access_key_id"):
        message = "use_iam_role and access_key_id exclude each other"
        parsed.at("use_iam_role").error("mutually_exclusive", message)
    if not by_role and not parsed.has("access_key_id"):
        message = "access_key_id with secret_access_key, or use_iam_role: true, is required"
        parsed.at("access_key_id").error("missing_field", message)
    if parsed.has("kms_key_id") and parsed.get("server_side_encryption") != "aws:kms":
        message = "kms_key_id counts only with server_side_encryption aws:kms"
        parsed.at("kms_key_id").warn("no_effect", message)
    parsed.values.setdefault("force_path_style", parsed.has("endpoint"))


def _check_configmap(parsed: ParsedFields) -> None:
    parsed.exclude("kubeconfig_path", "api_server")
    parsed.exclude("token", "client_cert")
    parsed.needs("context", "kubeconfig_path")
    parsed.needs("client_cert", "client_key")
    parsed.needs("client_key", "client_cert")
    if parsed.has("api_server"):
        if not parsed.has("token") and not parsed.has("client_cert"):
            message = "api_server needs token, or client_cert and client_key"
            parsed.at("token").error("missing_field", message)
        return
    for name in ("token", "client_cert", "ca_cert", "insecure_skip_verify"):
        if parsed.has(name):
            parsed.at(name).warn("no_effect", f"{name} counts only with api_server")


def _check_file(parsed: ParsedFields) -> None:
    if ".." in parsed.get("root", "").split("/"):
        parsed.at("root").error("out_of_range", 'a root holds no ".."')


_CHECKS: Final[Mapping[str, Callable[[ParsedFields], None]]] = {
    "mongo": _check_mongo,
    "redis": _check_redis,
    "s3": _check_s3,
    "configmap": _check_configmap,
    "file": _check_file,
}
