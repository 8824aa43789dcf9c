"""The API's description has words for every operation and no wrong ones."""

from __future__ import annotations

from typing import Any

import pytest
from drf_spectacular.generators import SchemaGenerator

from platform_site import api_words


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    made: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return made


def test_every_operation_has_a_summary_and_every_summary_an_operation(description: dict[str, Any]):
    known = {each["operationId"] for each in api_words.operations(description)}

    assert known == set(api_words.SUMMARIES)
    summaries = [each["summary"] for each in api_words.operations(description)]
    assert len(set(summaries)) == len(summaries)


def test_groups_come_in_the_order_of_their_users(description: dict[str, Any]):
    used = {tag for each in api_words.operations(description) for tag in each["tags"]}

    named = [tag["name"] for tag in description["tags"]]
    assert set(named) == used
    assert named[0] == "executions"
    assert named[-1] == "agent-control"


def test_no_two_operations_share_a_description(description: dict[str, Any]):
    texts = [
        each["description"] for each in api_words.operations(description) if each.get("description")
    ]

    assert len(set(texts)) == len(texts)
