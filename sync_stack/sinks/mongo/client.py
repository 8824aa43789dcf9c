"""A client of MongoDB, and its errors as facts of a sink."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from pymongo import MongoClient, ReadPreference, errors
from pymongo.write_concern import WriteConcern

from sync_stack.core.sink import SinkError
from sync_stack.sinks.limits import Timeouts
from sync_stack.sinks.mongo import CONNECTION, DEFAULT_PORT, MongoOptions
from sync_stack.sinks.open_sinks import Resolve

_AUTH_CODES: Final = frozenset({13, 18, 8000})


def connect(options: MongoOptions, timeouts: Timeouts, resolve: Resolve) -> MongoClient[Any]:
    """A client that connects at first use; `timeoutMS` bounds an operation with its retries."""
    settings = server_settings(options, resolve) | {
        "connectTimeoutMS": int(timeouts.connect_s * 1000),
        "serverSelectionTimeoutMS": int(timeouts.connect_s * 1000),
        "timeoutMS": int(timeouts.operation_s * 1000),
        "maxPoolSize": options.max_pool_size,
        "appname": "partita-sync",
    }
    with translate_errors():
        return MongoClient(options.endpoint or list(options.hosts), **settings)


def server_settings(options: MongoOptions, resolve: Resolve) -> dict[str, Any]:
    """Return credentials, TLS and replica set, by pymongo's names."""
    replicas = {"replicaSet": options.replica_set} if options.replica_set else {}
    if not options.ssl:
        return {**_credentials(options, resolve), **replicas}
    files = {"tlsCAFile": options.ssl_ca_path, "tlsCertificateKeyFile": options.ssl_key_path}
    return {
        **_credentials(options, resolve),
        **replicas,
        "tls": True,
        "tlsAllowInvalidCertificates": options.ssl_allow_invalid_certificates,
        **{name: path for name, path in files.items() if path},
    }


def _credentials(options: MongoOptions, resolve: Resolve) -> dict[str, str]:
    if not options.username:
        return {}
    named = {"authSource": options.auth_source, "authMechanism": options.auth_mechanism}
    password = {"password": resolve(options.password)} if options.password else {}
    given = {name: text for name, text in named.items() if text}
    return {"username": resolve(options.username), **password, **given}


def collection(client: MongoClient[Any], options: MongoOptions, name: str) -> Any:
    """Writes reach a majority; reads come from the primary."""
    return client[options.database].get_collection(
        name, write_concern=WriteConcern(w="majority"), read_preference=ReadPreference.PRIMARY
    )


def address(options: MongoOptions) -> str:
    """Hosts in order and lower case; no user, no options."""
    found = CONNECTION.match(options.endpoint)
    if found and found[1]:
        return f"srv:{found[2].lower()}"
    hosts = found[2].split(",") if found else list(options.hosts)
    with_ports = [host if ":" in host else f"{host}:{DEFAULT_PORT}" for host in hosts]
    return ",".join(sorted(host.lower() for host in with_ports))


@contextlib.contextmanager
def translate_errors() -> Iterator[None]:
    """Raise MongoDB's errors as the sink's, with codes only: their texts may quote documents."""
    try:
        yield
    except errors.PyMongoError as error:
        raise _fact(error) from None


def _fact(error: errors.PyMongoError) -> SinkError:
    code = getattr(error, "code", None)
    words = f"MongoDB: {type(error).__name__}" + (f" {code}" if code else "")
    if isinstance(error, errors.ConfigurationError | errors.InvalidURI):
        return SinkError("destination_invalid", words)
    if code in _AUTH_CODES:
        return SinkError("sink_auth", words)
    if isinstance(error, errors.DocumentTooLarge):
        return SinkError("destination_too_large", words)
    if error.timeout:
        return SinkError("sink_timeout", words)
    return SinkError("sink_unavailable", words)
