"""An asyncio client for the redis datasource that keeps replay records."""

from __future__ import annotations

from typing import Any, Final

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from sync_stack.core.bundle.model import RedisMode, RedisOptions
from sync_stack.gateway.webhook_secrets import Resolver
from sync_stack.sinks.redis_client import host_and_port, login_and_tls

_TIMEOUT_S: Final = 0.25
_CONNECTIONS: Final = 64


def open_redis(options: RedisOptions, resolver: Resolver) -> Any:
    """Connects at first use. Raises SecretError."""
    hosts = [host_and_port(text) for text in options.hosts]
    common: dict[str, Any] = {
        **login_and_tls(options, resolver.resolve),
        "socket_timeout": _TIMEOUT_S,
        "socket_connect_timeout": _TIMEOUT_S,
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
