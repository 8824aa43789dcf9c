"""References, the order of tags, challenges and links."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.oci.domain.challenges import next_link, read_challenge
from apps.oci.domain.reference import InvalidReference, parse_reference
from apps.oci.domain.repositories import chosen_tag, sorted_tags

DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("127.0.0.1:5000/core/shop:1.2", ("127.0.0.1:5000", "core/shop", "1.2", "")),
        ("localhost/shop", ("localhost", "shop", "", "")),
        (f"registry.example/a@{DIGEST}", ("registry.example", "a", "", DIGEST)),
        (f"registry.example/a:1@{DIGEST}", ("registry.example", "a", "1", DIGEST)),
        ("registry.example/@acme/lib:2", ("registry.example", "@acme/lib", "2", "")),
        ("registry.example/a/@acme", ("registry.example", "a/@acme", "", "")),
        ("[::1]:5000/shop:1", ("[::1]:5000", "shop", "1", "")),
    ],
)
def test_a_reference_is_read_and_written(text: str, parts: tuple[str, ...]):
    reference = parse_reference(text)

    assert (reference.host, reference.path, reference.tag, reference.digest) == parts
    assert str(reference) == text
    assert reference.repository == f"{parts[0]}/{parts[1]}"


@pytest.mark.parametrize(
    "text",
    [
        "", "shop", "core/shop:1", "registry.example/", "registry.example/Shop", "/shop",
        "registry.example/a//b", "registry.example/../a", "registry.example/a:",
        "registry.example/a: 1", f"registry.example/a@md5:{'0' * 32}",
        "registry.example/a@sha256:00", "https://registry.example/a",
        "user@registry.example/a", "registry.example/a\n", "registry.example/" + "a" * 300,
        "registry.example/a:" + "1" * 129, "registry.example/a?x=1",
        "registry.example/a%2e", "x" * 10_000,
    ],
)  # fmt: skip
def test_what_is_no_reference_is_refused(text: str):
    with pytest.raises(InvalidReference):
        parse_reference(text)


@given(st.text(max_size=60))
def test_any_text_is_a_reference_or_refused(text: str):
    try:
        found = parse_reference(text)
    except InvalidReference:
        return
    assert parse_reference(str(found)) == found


def test_tags_are_sorted_by_version():
    wanted = [
        "latest",
        "2.0.0",
        "1.10.0",
        "1.10.0-rc10",
        "1.10.0-rc2",
        "1.9",
        "1.2.1",
        "1.2",
        "edge",
    ]

    assert list(sorted_tags(reversed(wanted))) == wanted
    assert chosen_tag(wanted) == "2.0.0"
    assert chosen_tag(["latest"]) == "latest"
    assert chosen_tag([]) == ""


@given(st.lists(st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,8}", fullmatch=True), max_size=5))
def test_the_order_of_tags_does_not_depend_on_theirs(tags: list[str]):
    found = {sorted_tags(order) for order in itertools.permutations(tags)}

    assert len(found) == 1


@pytest.mark.parametrize(
    ("header", "scheme", "parameters"),
    [
        ('Basic realm="a b"', "basic", {"realm": "a b"}),
        (
            'Bearer realm="https://auth.example/token",service="r",scope="repository:a:pull,push"',
            "bearer",
            {
                "realm": "https://auth.example/token",
                "service": "r",
                "scope": "repository:a:pull,push",
            },
        ),
        (
            "Bearer realm=https://x/t , service = r",
            "bearer",
            {"realm": "https://x/t", "service": "r"},
        ),
        ('Bearer realm="a\\"b"', "bearer", {"realm": 'a"b'}),
        ('Bearer realm="a",realm="b"', "bearer", {"realm": "a"}),
        ("Negotiate", "negotiate", {}),
    ],
)
def test_a_challenge_is_read(header: str, scheme: str, parameters: dict[str, str]):
    found = read_challenge(header)

    assert found is not None
    assert (found.scheme, dict(found.parameters)) == (scheme, parameters)


@given(st.text(max_size=200))
def test_any_header_is_read_or_ignored(header: str):
    read_challenge(header)
    next_link(header)


def test_the_next_page_of_a_list_is_read():
    assert next_link('</v2/_catalog?n=2&last=b>; rel="next"') == "/v2/_catalog?n=2&last=b"
    assert next_link('<https://r/x>; rel="prev", <https://r/y>; rel=next') == "https://r/y"
    assert next_link('<https://r/x>; rel="prev"') == ""
    assert next_link("") == ""
