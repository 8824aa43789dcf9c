"""From the fields of one datasource to a Datasource: what excludes what, defaults of its kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sync_stack.core.bundle.datasource_fields import COMMON, TABLES
from sync_stack.core.bundle.datasources import (
    ConfigMapOptions,
    Datasource,
    DatasourceOptions,
    FileOptions,
    MongoOptions,
    RedisMode,
    RedisOptions,
    RedisStructure,
    S3Options,
    UpdateStrategy,
)
from sync_stack.core.bundle.diagnostics import Diagnostics, LocatedValue
from sync_stack.core.bundle.fields import ParsedFields, read_table
from sync_stack.core.bundle.secret_values import bound
from sync_stack.core.bundle.urls import is_among, server_of, servers_in

_DEFAULTS: Final[Mapping[str, UpdateStrategy]] = {
    "mongo": UpdateStrategy.KEY_VALUE,
    "redis": UpdateStrategy.KEY_VALUE,
    "s3": UpdateStrategy.DOCUMENT,
    "configmap": UpdateStrategy.KEY_VALUE,
    "file": UpdateStrategy.DOCUMENT,
}
_COMMON_NAMES: Final = frozenset(entry.attribute for entry in COMMON)
_NOT_VERIFIED: Final = {
    "verify_ssl": False,
    "insecure_skip_verify": True,
    "ssl_allow_invalid_certificates": True,
}


def read_datasource(kind: str, spot: LocatedValue, findings: Diagnostics) -> ParsedFields:
    """The fields of an entry, checked against one another."""
    given = read_table(TABLES[kind], spot, findings)
    for name, risky in _NOT_VERIFIED.items():
        if given.get(name) is risky:
            findings.warn(given.at(name), "risky_setting", "certificates are not verified")
    given.values["update_strategy"] = _strategy(kind, given, findings)
    _CHECKS[kind](given, findings)
    return given


def build_datasource(kind: str, name: str, given: ParsedFields, manager: str) -> Datasource | None:
    """None when something required is wrong; `manager` holds its `ref` secrets."""
    if not given.complete:
        return None
    values = {key: bound(value, manager) for key, value in given.values.items()}
    common = {key: values.pop(key) for key in list(values) if key in _COMMON_NAMES}
    common["secret_manager"] = manager if given.has("secret_manager") else ""
    options = _OPTIONS[kind](**values)
    return Datasource(name=name, kind=kind, options=options, place=given.spot.place, **common)


def _strategy(kind: str, given: ParsedFields, findings: Diagnostics) -> UpdateStrategy:
    """`update_strategy`, or what the kind's own words for it say; both must agree."""
    written: UpdateStrategy | None = given.get("update_strategy")
    meant = _own_words(kind, given)
    for name, strategy in meant.items():
        if written and written is not strategy:
            message = f"{name} means {strategy}, update_strategy says {written}"
            findings.error(given.at(name), "mutually_exclusive", message)
    return written or next(iter(meant.values()), _DEFAULTS[kind])


def _own_words(kind: str, given: ParsedFields) -> dict[str, UpdateStrategy]:
    meant = {}
    if kind == "redis" and given.get("data_structure") is RedisStructure.JSON:
        meant["data_structure"] = UpdateStrategy.DOCUMENT
    if kind == "redis" and given.get("update_strategy") is UpdateStrategy.DOCUMENT:
        structure = given.values.setdefault("data_structure", RedisStructure.JSON)
        if structure is not RedisStructure.JSON:
            meant["data_structure"] = UpdateStrategy.KEY_VALUE
    if given.take("one_file_per_key"):
        meant["one_file_per_key"] = UpdateStrategy.KEY_VALUE
    flatten = given.take("flatten_to_keys")
    if flatten is not None:
        meant["flatten_to_keys"] = UpdateStrategy.KEY_VALUE if flatten else UpdateStrategy.DOCUMENT
    return meant


def _needs(given: ParsedFields, one: str, other: str, findings: Diagnostics) -> None:
    if given.has(one) and not given.has(other):
        findings.error(given.at(other), "missing_field", f"{one} needs {other}")


def _only_one(given: ParsedFields, findings: Diagnostics, *names: str) -> None:
    written = [name for name in names if given.has(name)]
    if len(written) > 1:
        message = f"{' and '.join(written)} exclude each other"
        findings.error(given.at(written[1]), "mutually_exclusive", message)


def _mongo(given: ParsedFields, findings: Diagnostics) -> None:
    _compare_hosts(given, findings)
    _only_one(given, findings, "hosts", "host")
    if not any(given.has(name) for name in ("endpoint", "host", "hosts")):
        given.complete = False
        findings.error(given.at("endpoint"), "missing_field", "endpoint, host or hosts is required")
    if not given.has("endpoint"):
        _needs(given, "port", "host", findings)
    _needs(given, "password", "username", findings)
    _needs(given, "ssl_key_path", "ssl_cert_path", findings)
    _only_one(given, findings, "connect_timeout_s", "connect_timeout_ms")
    if milliseconds := given.take("connect_timeout_ms"):
        given.values["connect_timeout_s"] = milliseconds / 1000
    _join_hosts(given, 27017)


def _compare_hosts(given: ParsedFields, findings: Diagnostics) -> None:
    """What stands beside a connection string must name its servers; the string is what counts."""
    if not given.has("endpoint"):
        return
    servers = servers_in(given.get("endpoint", ""))
    host, port = given.take("host", ""), given.take("port", 0)
    named = [("hosts", server_of(text)) for text in given.take("hosts", ())]
    if host or port:
        named.append(("host" if host else "port", (host.lower(), port)))
    for name, server in named:
        if servers and not is_among(server, servers):
            message = f"{name} and endpoint name different servers"
            findings.error(given.at(name), "mutually_exclusive", message)


def _join_hosts(given: ParsedFields, port: int) -> None:
    """`host` and `port` become one of `hosts`; hosts without a port get the usual one."""
    host, port = given.take("host"), given.take("port", port)
    if host:
        given.values["hosts"] = (f"[{host}]" if ":" in host and "[" not in host else host,)
    if hosts := given.get("hosts"):
        given.values["hosts"] = tuple(_with_port(host, port) for host in hosts)


def _with_port(host: str, port: int) -> str:
    return (
        host if host.rpartition(":")[2].isdigit() and not host.endswith("]") else f"{host}:{port}"
    )


def _redis(given: ParsedFields, findings: Diagnostics) -> None:
    _only_one(given, findings, "hosts", "host")
    _only_one(given, findings, "hosts", "port")
    mode = given.get("mode") or RedisMode.STANDALONE
    if mode is RedisMode.SENTINEL and not given.has("sentinel_master"):
        findings.error(given.at("sentinel_master"), "missing_field", "SENTINEL needs its master")
    if mode is RedisMode.STANDALONE and len(given.get("hosts", ())) > 1:
        message = "several hosts need mode CLUSTER or SENTINEL"
        findings.error(given.at("hosts"), "mutually_exclusive", message)
    if mode is RedisMode.CLUSTER and given.get("db"):
        findings.error(given.at("db"), "mutually_exclusive", "a cluster has db 0 only")
    _needs(given, "tls_client_cert", "tls_client_key", findings)
    _needs(given, "tls_client_key", "tls_client_cert", findings)
    if given.has("port") and not given.has("host") and given.get("port"):
        given.values["host"] = "localhost"
    for name in ("mode", "data_structure"):
        if given.get(name) is None:
            given.take(name)
    _join_hosts(given, 6379)


def _s3(given: ParsedFields, findings: Diagnostics) -> None:
    _needs(given, "access_key_id", "secret_access_key", findings)
    _needs(given, "secret_access_key", "access_key_id", findings)
    _needs(given, "session_token", "access_key_id", findings)
    if given.get("use_iam_role") and given.has("access_key_id"):
        message = "use_iam_role and access_key_id exclude each other"
        findings.error(given.at("use_iam_role"), "mutually_exclusive", message)
    if not given.get("use_iam_role") and not given.has("access_key_id"):
        message = "access_key_id with secret_access_key, or use_iam_role: true, is required"
        findings.error(given.at("access_key_id"), "missing_field", message)
    if given.has("kms_key_id") and given.get("server_side_encryption") != "aws:kms":
        message = "kms_key_id counts only with server_side_encryption aws:kms"
        findings.warn(given.at("kms_key_id"), "no_effect", message)
    given.values.setdefault("force_path_style", given.has("endpoint"))


def _configmap(given: ParsedFields, findings: Diagnostics) -> None:
    _only_one(given, findings, "kubeconfig_path", "api_server")
    _only_one(given, findings, "token", "client_cert")
    _needs(given, "context", "kubeconfig_path", findings)
    _needs(given, "client_cert", "client_key", findings)
    _needs(given, "client_key", "client_cert", findings)
    if given.has("api_server") and not (given.has("token") or given.has("client_cert")):
        message = "api_server needs token, or client_cert and client_key"
        findings.error(given.at("token"), "missing_field", message)
    for name in ("token", "client_cert", "ca_cert", "insecure_skip_verify"):
        if given.has(name) and not given.has("api_server"):
            findings.warn(given.at(name), "no_effect", f"{name} counts only with api_server")
    if given.get("on_conflict") is None:
        given.take("on_conflict")


def _file(given: ParsedFields, findings: Diagnostics) -> None:
    if ".." in given.get("root", "").split("/"):
        findings.error(given.at("root"), "out_of_range", 'a root holds no ".."')


_CHECKS: Final[Mapping[str, Callable[[ParsedFields, Diagnostics], None]]] = {
    "mongo": _mongo,
    "redis": _redis,
    "s3": _s3,
    "configmap": _configmap,
    "file": _file,
}
_OPTIONS: Final[Mapping[str, Callable[..., DatasourceOptions]]] = {
    "mongo": MongoOptions,
    "redis": RedisOptions,
    "s3": S3Options,
    "configmap": ConfigMapOptions,
    "file": FileOptions,
}
