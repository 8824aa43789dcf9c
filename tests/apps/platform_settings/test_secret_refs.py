"""What a secretRef names, and which field of a secret is the value.

(reference: control-plane 10)
"""

from __future__ import annotations

import pytest

from apps.platform_settings.domain.secrets import (
    NoSuchValue,
    SecretPath,
    field_of,
    field_of_json,
    provider_of,
    secret_path,
)


@pytest.mark.parametrize(
    ("provider", "ref", "source"),
    [
        ("local", "token", "local"),
        ("secrets", "token", "local"),
        ("file", "token", "file"),
        ("file", "vault://psp", "file"),
        ("vault", "psp#token", "vault"),
        ("hashicorp-vault", "psp", "vault"),
        ("kv", "vault://psp#token", "vault"),
        ("aws-secrets-manager", "psp", "aws-secrets-manager"),
        ("cupboard", "psp", None),
    ],
)
def test_the_provider_says_who_has_it(provider: str, ref: str, source: str | None):
    found = provider_of(provider, ref)

    assert (found.names[0] if found else None) == source


def test_a_path_lies_below_the_prefix():
    assert secret_path("psp#token", prefix="kv") == SecretPath("kv/psp", "token")
    assert secret_path("vault://psp", prefix="/kv/team/") == SecretPath("kv/team/psp")
    assert secret_path("kv/psp") == SecretPath("kv/psp")


@pytest.mark.parametrize("ref", ["../other", "a/../b", "a//b", "/a", "a/", ".", "", "#field"])
def test_no_path_leads_out_of_the_prefix(ref: str):
    with pytest.raises(NoSuchValue):
        secret_path(ref, prefix="kv/team")


def test_without_a_name_it_is_the_only_field_or_value():
    assert field_of({"token": "a"}, "") == "a"
    assert field_of({"user": "ada", "value": "a"}, "") == "a"
    assert field_of({"port": 5432}, "port") == "5432"


@pytest.mark.parametrize(
    ("fields", "name"),
    [({}, ""), ({"a": "1", "b": "2"}, ""), ({"a": ""}, "a"), ({"a": True}, "a"), ({"a": {}}, "a")],
)
def test_what_is_no_value_is_refused_and_not_repeated(fields: dict[str, object], name: str):
    with pytest.raises(NoSuchValue):
        field_of(fields, name)


def test_a_text_is_the_value_or_an_object_that_holds_it():
    assert field_of_json("plain", "") == "plain"
    assert field_of_json('{"token": "a"}', "token") == "a"
    for text in ("plain-s3cret", '["s3cret"]', "[" * 100_000):
        with pytest.raises(NoSuchValue) as refused:
            field_of_json(text, "token")
        assert "s3cret" not in str(refused.value)
