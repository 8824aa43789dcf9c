"""REDIS_ADDR and REDIS_PASSWORD as the URL that every client of Redis gets."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured
from redis.connection import parse_url

from platform_site.settings.env import redis_url


def test_without_an_address_there_is_no_redis():
    assert redis_url("", "secret", 0) == ""


@pytest.mark.parametrize("address", ["redis:6379", "127.0.0.1:6379", "[::1]:6379"])
def test_any_password_reaches_redis_as_it_is(address):
    parsed = parse_url(redis_url(address, "p@ss:w/ord#?%", 3))

    assert parsed["password"] == "p@ss:w/ord#?%"
    assert parsed["host"] == address.rpartition(":")[0].strip("[]")
    assert parsed["port"] == 6379
    assert parsed["db"] == 3


@pytest.mark.parametrize(
    "address", ["redis:abc", "redis:99999", "redis:0", ":6379", "redis://redis:6379", "redis/1"]
)
def test_what_is_no_host_and_port_stops_the_start(address):
    with pytest.raises(ImproperlyConfigured, match=r"^REDIS_ADDR="):
        redis_url(address, "hunter2", 0)
