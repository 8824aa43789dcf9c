"""Connections to Redis: one server, a cluster or what sentinels name; errors as facts of a sink."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from typing import Any, Final

from redis import Redis, Sentinel, exceptions
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.retry import Retry

from sync_stack.core.bundle.datasources import RedisMode, RedisOptions
from sync_stack.core.sink import SinkError
from sync_stack.sinks.limits import Timeouts
from sync_stack.sinks.registry import Resolve

_DEFAULT_PORT: Final = 6379


def connect(options: RedisOptions, timeouts: Timeouts, resolve: Resolve) -> Any:
    """A client that connects at first use and tries nothing twice.

    Cluster and sentinel clients ask their nodes at once: raises SinkError.
    """
    settings = _settings(options, timeouts, resolve)
    hosts = [host_and_port(text) for text in options.hosts]
    with translated():
        if options.mode is RedisMode.CLUSTER:
            nodes = [ClusterNode(host, port) for host, port in hosts]  # type: ignore[no-untyped-call]
            return RedisCluster(startup_nodes=nodes, **settings)
        if options.mode is RedisMode.SENTINEL:
            # the user is the server's: sentinels are asked without one
            asking = settings | {"username": None, "password": None}
            watching = Sentinel(hosts, sentinel_kwargs=asking, db=options.db, **settings)  # type: ignore[no-untyped-call]
            return watching.master_for(options.sentinel_master)  # type: ignore[no-untyped-call]
    host, port = hosts[0]
    return Redis(host=host, port=port, db=options.db, **settings)


def _settings(options: RedisOptions, timeouts: Timeouts, resolve: Resolve) -> dict[str, Any]:
    return {
        **login_and_tls(options, resolve),
        "socket_connect_timeout": timeouts.connect_s,
        "socket_timeout": timeouts.answer_s,
        "max_connections": options.max_connections,
        "retry": Retry(NoBackoff(), 0),
    }


def login_and_tls(options: RedisOptions, resolve: Resolve) -> dict[str, Any]:
    """Return the login and TLS options of a redis-py client, by its names."""
    login = {
        "username": resolve(options.username) if options.username else None,
        "password": resolve(options.password) if options.password else None,
    }
    return login | (_tls(options) if options.enable_tls else {})


def _tls(options: RedisOptions) -> dict[str, Any]:
    return {
        "ssl": True,
        "ssl_ca_certs": options.tls_ca_cert or None,
        "ssl_certfile": options.tls_client_cert or None,
        "ssl_keyfile": options.tls_client_key or None,
        "ssl_cert_reqs": "none" if options.insecure_skip_verify else "required",
        "ssl_check_hostname": not options.insecure_skip_verify,
        "ssl_min_version": ssl.TLSVersion.TLSv1_2,
    }


def host_and_port(text: str) -> tuple[str, int]:
    """`host`, `host:port`, `[address]:port`; a host in lower case."""
    host, separator, port = text.rpartition(":")
    if not separator or "]" in port:
        host, port = text, ""
    return host.strip("[]").lower(), int(port or _DEFAULT_PORT)


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Redis's errors as the sink's; their texts may quote values: only the first word is told."""
    try:
        yield
    except exceptions.RedisError as error:
        raise _fact(error) from None
    except OSError as error:
        raise SinkError("sink_unavailable", f"Redis: {type(error).__name__}") from None


def is_wrong_type(error: exceptions.RedisError) -> bool:
    """Whether the key holds another type of value than the command is for."""
    return str(error).startswith("WRONGTYPE")


def _fact(error: exceptions.RedisError) -> SinkError:
    word = str(error).split(" ", 1)[0].rstrip(":")
    known = word if word.isupper() and word.isalpha() else type(error).__name__
    if is_wrong_type(error):
        return SinkError("unowned_destination", "the key holds another type of value")
    if isinstance(error, exceptions.AuthenticationError | exceptions.AuthorizationError):
        return SinkError("sink_auth", f"Redis refused the user: {known}")
    if isinstance(error, exceptions.NoPermissionError):
        return SinkError("sink_auth", f"the Redis user lacks a permission: {known}")
    if isinstance(error, exceptions.TimeoutError):
        return SinkError("sink_timeout", "Redis did not answer in time")
    return SinkError("sink_unavailable", f"Redis: {known}")
