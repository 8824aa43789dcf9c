"""The order of tags and the choice of a version (reference: control-plane 5.1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.catalog.domain.tags import chosen_version, sorted_tags

TAGS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,20}\Z")


@pytest.mark.parametrize(
    "ordered",
    [
        ("latest", "2.0", "1.10", "1.9", "1.9-rc10", "1.9-rc9", "1.9-beta"),
        ("1.0.1", "1.0", "1.0-rc.2", "1.0-rc.1"),
        ("v2.0", "v1.10", "v1.9"),
        ("2024-11-02", "2024-9-30"),
        ("3_1", "3_0", "nightly"),
        ("latest",),
        (),
    ],
)
def test_latest_is_first_and_then_the_highest(ordered: tuple[str, ...]):
    assert sorted_tags(reversed(ordered)) == ordered
    assert sorted_tags([*ordered, *ordered]) == ordered


@given(st.lists(TAGS, unique=True))
def test_the_order_is_the_same_however_a_registry_lists_them(tags: list[str]):
    assert sorted_tags(tags) == sorted_tags(reversed(tags))
    assert sorted(sorted_tags(tags)) == sorted(tags)


@pytest.mark.parametrize(
    ("tags", "wanted", "version"),
    [
        (("latest", "1.2", "1.1"), "", "1.2"),
        (("latest", "1.2", "1.1"), "1.1", "1.1"),
        (("latest", "1.2", "1.1"), "workspace", "1.2"),
        (("latest",), "", "latest"),
        ((), "1.1", ""),
    ],
)
def test_the_version(tags: tuple[str, ...], wanted: str, version: str):
    assert chosen_version(tags, wanted) == version
