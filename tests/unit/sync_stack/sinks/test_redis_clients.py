"""Both clients of a redis datasource, the sink's and the gateway's, are set up alike."""

from __future__ import annotations

import ssl
from typing import Any

import pytest
import redis.cluster
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio import RedisCluster as AsyncCluster

from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.gateway.reservations import open_redis
from sync_stack.sinks.limits import Timeouts
from sync_stack.sinks.redis import RedisMode, RedisOptions
from sync_stack.sinks.redis.client import connect

TIMEOUTS = Timeouts(connect_s=1, answer_s=2)


class Resolver:
    def resolve(self, ref: SecretRef) -> str:
        return ref.value


def options(**fields: Any) -> RedisOptions:
    return RedisOptions(
        hosts=("[::1]:7000", "Other:7001"),
        username=SecretRef(value="user"),
        password=SecretRef(value="pass:@/"),
        db=3,
        **fields,
    )


def of_the_gateway(given: RedisOptions) -> dict[str, Any]:
    client = open_redis(given, Resolver())
    assert isinstance(client, AsyncRedis)
    return dict(client.connection_pool.connection_kwargs)


def of_the_sink(given: RedisOptions) -> dict[str, Any]:
    client = connect(given, TIMEOUTS, Resolver().resolve)
    return dict(client.connection_pool.connection_kwargs)


@pytest.mark.parametrize("used", [of_the_gateway, of_the_sink])
def test_login_and_place(used):
    settings = used(options())
    assert {name: settings[name] for name in ("host", "port", "db", "username", "password")} == {
        "host": "::1",
        "port": 7000,
        "db": 3,
        "username": "user",
        "password": "pass:@/",
    }
    assert "ssl_cert_reqs" not in settings


@pytest.mark.parametrize("used", [of_the_gateway, of_the_sink])
def test_tls_is_checked_unless_the_bundle_says_otherwise(used):
    files = {"tls_ca_cert": "/ca", "tls_client_cert": "/cert", "tls_client_key": "/key"}
    settings = used(options(enable_tls=True, **files))
    assert settings["ssl_cert_reqs"] == "required"
    assert settings["ssl_check_hostname"] is True
    assert settings["ssl_min_version"] == ssl.TLSVersion.TLSv1_2
    assert settings["ssl_ca_certs"] == "/ca"
    assert settings["ssl_certfile"] == "/cert"
    assert settings["ssl_keyfile"] == "/key"
    loose = used(options(enable_tls=True, insecure_skip_verify=True))
    assert (loose["ssl_cert_reqs"], loose["ssl_check_hostname"]) == ("none", False)


@pytest.mark.parametrize("tls", [False, True])
def test_a_cluster_and_sentinels_are_asked_with_the_same_settings(tls, monkeypatch):
    cluster = open_redis(options(mode=RedisMode.CLUSTER, enable_tls=tls), Resolver())
    assert isinstance(cluster, AsyncCluster)
    assert cluster.connection_kwargs["username"] == "user"
    named = options(mode=RedisMode.SENTINEL, sentinel_master="main", enable_tls=tls)
    for client in (open_redis(named, Resolver()), connect(named, TIMEOUTS, Resolver().resolve)):
        assert client.connection_pool.service_name == "main"
    made: dict[str, Any] = {}
    monkeypatch.setattr(
        "sync_stack.sinks.redis.client.RedisCluster", lambda **settings: made.update(settings)
    )
    connect(options(mode=RedisMode.CLUSTER, enable_tls=tls), TIMEOUTS, Resolver().resolve)
    known = set(redis.cluster.REDIS_ALLOWED_KEYS) | {"startup_nodes", "retry"}
    # a cluster's client leaves the version to Python, whose own minimum is the same
    assert made.keys() <= known | {"ssl_min_version"}
