"""The OpenAPI of `/api/v1/auth`."""

from __future__ import annotations

import pytest
from drf_spectacular.generators import SchemaGenerator

import apps.http.rest.documentation  # noqa: F401 - says what the credentials of the API are


@pytest.fixture
def schema(capsys):
    made = SchemaGenerator(urlconf="tests.apps.accounts.urlconf").get_schema(public=True)
    complaints = capsys.readouterr().err
    assert "apps/accounts" not in complaints, complaints
    return made


def test_each_route_is_described_with_its_bodies(schema):

    described = {
        path.removeprefix("/api/v1/auth/"): set(item) & {"get", "post"}
        for path, item in schema["paths"].items()
        if "/auth/" in path
    }
    assert described == {
        "config": {"get"},
        "sign-up": {"post"},
        "sign-in": {"post"},
        "ci": {"post"},
        "refresh": {"post"},
        "device": {"post"},
        "device/token": {"post"},
        "me": {"get"},
        "sign-out": {"post"},
        "sign-out-everywhere": {"post"},
        "stream-tickets": {"post"},
        "tokens": {"get", "post"},
        "tokens/{token_id}": set(),
        "sso/providers": {"get"},
        "oidc/login": {"get"},
        "oidc/callback": {"get"},
        "oidc/exchange": {"post"},
        "forgot-password": {"post"},
        "reset-password": {"post"},
    }
    bodies = schema["components"]["schemas"]
    assert set(bodies["SignUpInput"]["properties"]) == {
        "fullName",
        "email",
        "password",
        "invitation",
    }
    assert set(bodies["AuthResponse"]["required"]) >= {"token", "refreshToken", "user"}


def test_public_routes_ask_for_no_credential(schema):
    paths = schema["paths"]

    assert {} in paths["/api/v1/auth/sign-in"]["post"].get("security", [{}])
    assert paths["/api/v1/auth/me"]["get"]["security"]


def test_the_sign_in_by_a_code_is_described_with_examples_that_fit(schema):
    components = schema["components"]["schemas"]

    for path, name in (("device", "DeviceCodeDocument"), ("device/token", "DeviceToken")):
        operation = schema["paths"][f"/api/v1/auth/{path}"]["post"]
        content = operation["responses"]["200"]["content"]["application/json"]
        (example,) = content["examples"].values()
        assert set(example["value"]) == set(components[name]["properties"]) - {"lastUsedAt"}
        assert set(example["value"]) >= set(components[name]["required"])
    assert "token" not in components["MeResponse"]["required"]
