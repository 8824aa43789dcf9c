"""Whatever comes, memory stays bounded (reference: sync-stack 2.7, 2.8)."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers import Unreadable
from readers.json import read_json
from sync_stack.core.bundle.model import Rate
from sync_stack.gateway.client_address import ClientAddresses
from sync_stack.gateway.payloads import NotJson, _scan, parse_payload
from sync_stack.gateway.rate_limits import (
    MAX_ENTRIES,
    Admission,
    Limited,
    MemoryBudget,
    RateLimiter,
    RateLimits,
)
from sync_stack.gateway.reservations import ClaimResult, MemoryReplay

LIMIT = 10 * 2**20


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_hundred_thousand_senders_leave_no_more_entries_than_allowed():
    """Sync invariant 32."""
    clock = Clock()
    rate = Rate(rate=1, burst=2)
    limiter = RateLimiter(RateLimits(total=None, per_ip=rate, per_key=rate), clock)
    for number in range(100_000):
        limiter.admit(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", "mongo")
    assert len(limiter) <= MAX_ENTRIES

    clock.now = 601.0
    for number in range(60_000):
        limiter.admit("192.0.2.1", str(number % 3))
    assert len(limiter) <= 4


def test_a_refused_sender_drains_no_shared_bucket():
    clock = Clock()
    one = Rate(rate=1, burst=1)
    limiter = RateLimiter(RateLimits(total=Rate(rate=1, burst=5), per_ip=one, per_key=None), clock)
    assert isinstance(limiter.admit("a", "x"), Admission)
    for _ in range(50):
        assert limiter.admit("a", "x") == Limited(scope="ip", retry_after_s=1)
    for name in "bcde":
        assert isinstance(limiter.admit(name, "x"), Admission)
    assert limiter.admit("f", "x") == Limited(scope="global", retry_after_s=1)


def test_a_hundred_thousand_deliveries_keep_no_more_records_than_allowed():
    """Sync invariant 32."""
    clock = Clock()
    memory = MemoryReplay(clock, max_records=10_000)
    for number in range(100_000):
        keys = (f"id:{number}", f"body:{number}")
        assert memory.claim(keys, "o", 30) is ClaimResult.NONE
        memory.accept(keys, "o", 300)
    assert len(memory) == 10_000
    assert len(memory._expiries) <= 30_000
    clock.now = 301
    assert memory.claim(("new",), "o", 30) is ClaimResult.NONE
    assert len(memory) == 1


def test_a_hundred_thousand_deliveries_that_are_released_leave_nothing():
    """Sync invariant 32: the orchestrator is away, so nothing of them is ever accepted."""
    memory = MemoryReplay(Clock())
    for number in range(100_000):
        assert memory.claim((f"id:{number}",), "o", 30) is ClaimResult.NONE
        memory.release((f"id:{number}",), "o")
    assert len(memory) == 0
    assert len(memory._expiries) <= 2_000


def test_the_records_of_a_delivery_come_and_go_together():
    clock = Clock()
    memory = MemoryReplay(clock)
    first, other_id = ("id:1", "body:1"), ("id:2", "body:1")
    assert memory.claim(first, "a", 30) is ClaimResult.NONE
    assert memory.claim(other_id, "b", 30) is ClaimResult.RESERVED
    assert (
        memory.claim(("id:2", "body:2"), "b", 30) is ClaimResult.NONE
    )  # nothing of it was claimed
    memory.release(first, "b")
    assert memory.claim(other_id, "c", 30) is ClaimResult.RESERVED
    memory.accept(first, "a", 300)
    clock.now = 31
    assert len(memory) == 4
    assert memory.claim(other_id, "c", 30) is ClaimResult.ACCEPTED
    assert len(memory) == 2  # the reservation of `b` is over, what was accepted is not

    memory.accept(("id:2", "body:2"), "b", 300)  # too late
    assert memory.claim(("id:2",), "c", 30) is ClaimResult.NONE
    memory.release(first, "a")  # what is accepted is nobody's
    assert memory.claim(("body:1",), "d", 30) is ClaimResult.ACCEPTED


def test_an_address_holds_64_mib_or_one_body():
    """Sync invariants 31, 32: and is forgotten with its last body."""
    held = MemoryBudget(total=100, per_ip=40)
    assert held.take("a", 40, one_body=10) == ""
    assert held.take("a", 1, one_body=10) == "ip"
    assert held.take("b", 60, one_body=60) == ""
    assert held.take("c", 1, one_body=10) == "global"
    held.release("a", 40)
    held.release("b", 60)
    assert (held.total, held._by_ip) == (0, {})


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("203.0.113.9", ("1.2.3.4",), "203.0.113.9"),
        ("10.0.0.1", ("1.2.3.4, 10.0.0.2",), "1.2.3.4"),
        ("10.0.0.1", ("1.2.3.4", "5.6.7.8:99"), "5.6.7.8"),
        ("10.0.0.1", ("nonsense",), "10.0.0.1"),
        ("10.0.0.1", (), "10.0.0.1"),
        ("2001:db8:1:2:3::4", (), "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", (), "192.0.2.1"),
        ("", (), "unknown"),
    ],
)
def test_senders(peer, forwarded, expected):
    from ipaddress import ip_network

    assert ClientAddresses((ip_network("10.0.0.0/8"),)).key(peer, forwarded) == expected


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=4), VALUES), st.randoms())
def test_both_ways_of_reading_agree_with_a_strict_reader(value, rng: random.Random):
    """Also after characters were taken out or put twice: duplicates, cut texts, stray signs."""
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5)
    for _ in range(rng.randrange(3)):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + text[at + rng.randrange(2) :] + text[at : at + rng.randrange(8)]
    body = text.encode("utf-8", "surrogatepass")

    verdicts = {_is_object(body, parse_payload), _is_object(body, _fully_scanned)}
    assert verdicts <= {_strictly(body)} or b"\\u0000" in body or b"\x00" in body


def _fully_scanned(body: bytes, *, limit: int):
    return _scan(body, limit)


def _is_object(body: bytes, read) -> bool:
    try:
        read(body, limit=LIMIT)
    except NotJson:
        return False
    return True


def _strictly(body: bytes) -> bool:
    try:
        return isinstance(read_json(body), dict)
    except Unreadable:
        return False


@pytest.mark.parametrize(
    "filler", ["{}", "[]", "0", '{"a":0}', '"x"'], ids=["objects", "lists", "numbers", "pairs", "s"]
)
def test_many_small_values_cost_no_more_than_the_limit_allows(filler):
    """Sync invariant 31: not decoded into Python values, which would be twenty times as large."""
    import tracemalloc

    limit = 2**18
    body = b'{"ref":"x","repository":{},"pad":[' + b",".join(
        [filler.encode()] * (limit // (len(filler) + 1) - 40)
    )
    body += b"]}"
    assert len(body) <= limit
    tracemalloc.start()
    value = parse_payload(body, limit=limit)
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert value["ref"] == "x"
    assert peak <= 4 * limit


def test_a_million_keys_in_one_object_are_compared_in_bounded_memory():
    """Sync invariant 31."""
    import tracemalloc

    pairs = ",".join(f'"{number}":0' for number in range(100_000))
    body = f'{{"ref":"x",{pairs}}}'.encode()
    double = body[:-1] + b',"77":1}'
    tracemalloc.start()
    assert parse_payload(body, limit=len(body) + 1)["ref"] == "x"
    with pytest.raises(NotJson, match="duplicate key"):
        parse_payload(double, limit=len(double))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak <= 4 * len(body)
