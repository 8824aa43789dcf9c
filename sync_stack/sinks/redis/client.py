"""Clients of Redis, their errors as facts of a sink, and its change notifications."""

from __future__ import annotations

import contextlib
import re
import ssl
import time
from collections.abc import Collection, Iterator
from typing import Any, Final

from redis import Redis, Sentinel, exceptions
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.retry import Retry

from sync_stack.core.sink import Destination, SinkError
from sync_stack.sinks.documents import bytes_of
from sync_stack.sinks.limits import Timeouts
from sync_stack.sinks.open_sinks import Resolve
from sync_stack.sinks.redis import RedisMode, RedisOptions

_DEFAULT_PORT: Final = 6379
_MOST: Final = 1000  # of one look; what is left comes with the next one
_ASK_S: Final = 30.0  # a connection that died silently is noticed by then
_GLOB: Final = re.compile(rb"([*?\[\]^\\])")


def connect(options: RedisOptions, timeouts: Timeouts, resolve: Resolve) -> Any:
    """A client that connects at first use and tries nothing twice.

    Cluster and sentinel clients ask their nodes at once: raises SinkError.
    """
    settings = login_and_tls(options, resolve) | {
        "socket_connect_timeout": timeouts.connect_s,
        "socket_timeout": timeouts.answer_s,
        "max_connections": options.max_connections,
        "retry": Retry(NoBackoff(), 0),
    }
    hosts = [host_and_port(text) for text in options.hosts]
    with translate_errors():
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


def login_and_tls(options: RedisOptions, resolve: Resolve) -> dict[str, Any]:
    """Return the login and TLS options of a redis-py client, by its names."""
    login = {
        "username": resolve(options.username) if options.username else None,
        "password": resolve(options.password) if options.password else None,
    }
    if not options.enable_tls:
        return login
    return {
        **login,
        "ssl": True,
        "ssl_ca_certs": options.tls_ca_cert or None,
        "ssl_certfile": options.tls_client_cert or None,
        "ssl_keyfile": options.tls_client_key or None,
        "ssl_cert_reqs": "none" if options.insecure_skip_verify else "required",
        "ssl_check_hostname": not options.insecure_skip_verify,
        "ssl_min_version": ssl.TLSVersion.TLSv1_2,
    }


def host_and_port(text: str) -> tuple[str, int]:
    """Split `host`, `host:port` or `[address]:port`; a host is in lower case."""
    host, separator, port = text.rpartition(":")
    if not separator or "]" in port:
        host, port = text, ""
    return host.strip("[]").lower(), int(port or _DEFAULT_PORT)


@contextlib.contextmanager
def translate_errors() -> Iterator[None]:
    """Raise Redis's errors as the sink's, with their first word only: texts may quote values."""
    try:
        yield
    except exceptions.RedisError as error:
        raise _fact(error) from None
    except OSError as error:
        raise SinkError("sink_unavailable", f"Redis: {type(error).__name__}") from None


def is_wrong_type(error: exceptions.RedisError) -> bool:
    """Whether the key holds a value of another type than the command is for."""
    return str(error).startswith("WRONGTYPE")


def _fact(error: exceptions.RedisError) -> SinkError:
    word = str(error).split(" ", 1)[0].rstrip(":")
    known = word if word.isupper() and word.isalpha() else type(error).__name__
    if is_wrong_type(error):
        return SinkError("unowned_destination", "the key holds a value of another type")
    if isinstance(error, exceptions.AuthenticationError | exceptions.AuthorizationError):
        return SinkError("sink_auth", f"Redis refused the user: {known}")
    if isinstance(error, exceptions.NoPermissionError):
        return SinkError("sink_auth", f"the Redis user lacks a permission: {known}")
    if isinstance(error, exceptions.TimeoutError):
        return SinkError("sink_timeout", "Redis did not answer in time")
    return SinkError("sink_unavailable", f"Redis: {known}")


class RedisChanges:
    """For one thread. `strings`: a destination's keys begin with its name and its separator."""

    def __init__(self, client: Any, *, db: int) -> None:
        self._client = client
        self._prefix = f"__keyspace@{db}__:".encode()
        self._events = client.pubsub(ignore_subscribe_messages=True)
        self._heard: dict[bytes, str] = {}  # channel or pattern → id of the destination
        self._asked = time.monotonic()

    def is_told(self, kinds: str) -> bool:
        """Whether the server sends events of these kinds; True where it does not say."""
        with translate_errors():
            try:
                found = self._client.config_get("notify-keyspace-events")
            except exceptions.ResponseError:
                return True  # the user may not ask
        flags = set(dict(found).get("notify-keyspace-events", ""))
        return "K" in flags and ("A" in flags or flags >= set(kinds))

    def next(self, destinations: Collection[Destination], timeout_s: float) -> frozenset[str]:
        with translate_errors():
            self._follow({self._channel(each): each.id for each in destinations})
            if self._heard and time.monotonic() - self._asked > _ASK_S:
                self._asked = time.monotonic()
                self._events.ping()
            ids: set[str] = set()
            message = self._events.get_message(timeout=timeout_s)
            while message is not None and len(ids) < _MOST:
                ids.add(self._heard.get(message.get("pattern") or message["channel"], ""))
                message = self._events.get_message(timeout=0)
            return frozenset(ids - {""})

    def close(self) -> None:
        with translate_errors():
            self._events.close()
            self._client.close()

    def _channel(self, destination: Destination) -> bytes:
        """Of the key; a pattern where the destination is the beginning of many keys."""
        name = self._prefix + bytes_of(destination.name)
        if not destination.separator:
            return name
        start = name + bytes_of(destination.separator)
        return _GLOB.sub(rb"\\\1", start) + b"*"

    def _follow(self, wanted: dict[bytes, str]) -> None:
        new, gone = wanted.keys() - self._heard.keys(), self._heard.keys() - wanted.keys()
        for patterns, begin, end in (
            (True, self._events.psubscribe, self._events.punsubscribe),
            (False, self._events.subscribe, self._events.unsubscribe),
        ):
            if names := [name for name in new if name.endswith(b"*") is patterns]:
                begin(*names)
            if names := [name for name in gone if name.endswith(b"*") is patterns]:
                end(*names)
        self._heard = wanted
