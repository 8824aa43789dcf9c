"""An asyncio client for the redis datasource that keeps replay records."""

from __future__ import annotations

import ssl
from typing import Any, Final

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from sync_stack.core.bundle.model import RedisMode, RedisOptions, SecretRef
from sync_stack.gateway.keys import Resolver

_TIMEOUT_S: Final = 0.25
_CONNECTIONS: Final = 64


def open_redis(options: RedisOptions, resolver: Resolver) -> Any:
    """Connects at first use. Raises SecretError."""
    hosts = [_host_port(host) for host in options.hosts] or [("localhost", 6379)]
    common: dict[str, Any] = {
        "username": _resolved(options.username, resolver),
        "password": _resolved(options.password, resolver),
        "socket_timeout": _TIMEOUT_S,
        "socket_connect_timeout": _TIMEOUT_S,
        **_tls(options),
    }
    if options.mode is RedisMode.CLUSTER:
        nodes = [ClusterNode(host, port) for host, port in hosts]
        return RedisCluster(startup_nodes=nodes, **common)
    common |= {"db": options.db, "retry": Retry(NoBackoff(), 0), "max_connections": _CONNECTIONS}
    if options.mode is RedisMode.SENTINEL:
        sentinel: Any = Sentinel(  # type: ignore[no-untyped-call]
            hosts, sentinel_kwargs={"socket_timeout": _TIMEOUT_S}
        )
        return sentinel.master_for(options.sentinel_master, **common)
    return Redis(host=hosts[0][0], port=hosts[0][1], **common)


def _resolved(ref: SecretRef | None, resolver: Resolver) -> str | None:
    return resolver.resolve(ref) if ref else None


def _host_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def _tls(options: RedisOptions) -> dict[str, Any]:
    if not options.enable_tls:
        return {}
    files = {
        "ssl_ca_certs": options.tls_ca_cert,
        "ssl_certfile": options.tls_client_cert,
        "ssl_keyfile": options.tls_client_key,
    }
    return {
        "ssl": True,
        "ssl_cert_reqs": "none" if options.insecure_skip_verify else "required",
        "ssl_check_hostname": not options.insecure_skip_verify,
        "ssl_min_version": ssl.TLSVersion.TLSv1_2,
        **{name: path for name, path in files.items() if path},
    }
