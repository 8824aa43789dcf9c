"""The id of a call: that of its caller, or a random one."""

from __future__ import annotations

import uuid

import pytest

from mocks.plane.http_requests import request_id_of


def test_a_call_without_an_id_gets_a_random_uuid():
    made = [request_id_of({}).decode() for _ in range(1_000)]

    assert len(set(made)) == len(made)
    for text in made:
        parsed = uuid.UUID(text)
        assert (parsed.version, parsed.variant) == (4, uuid.RFC_4122)
        assert str(parsed) == text


@pytest.mark.parametrize(("given", "kept"), [(b"build-7/a", True), (b"a b", False), (b"", False)])
def test_a_well_formed_id_of_the_caller_is_kept(given: bytes, kept: bool):
    assert (request_id_of({b"x-request-id": given}) == given) is kept
