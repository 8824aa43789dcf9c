"""The suite that a reference names, before a launch with it (reference: control-plane 11.1)."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.apps.executions_rest.conftest import Caller
from tests.support.api_clients import problem

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    "reference",
    [
        "shop",
        "registry.example/partita-examples/shop",
        "registry.example/partita-examples/shop:1.0.0",
        "oci://registry.example/partita-examples/shop",
    ],
)
def test_a_suite_is_found_by_its_id_its_repository_and_its_tag(ada: Caller, reference: str) -> None:
    repository, version = _of_shop(ada)
    wanted = reference.replace("registry.example/partita-examples/shop", repository)

    answer = ada.get(f"executions/resolve-ref?ref={wanted.replace('1.0.0', version)}")

    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert (body["id"], body["title"], body["repository"]) == ("shop", "Shop", repository)
    assert body["version"] == version
    assert body["profiles"][0]["default"] is True
    assert all(each["fileName"].endswith(".yaml") for each in body["profiles"])


def test_a_suite_is_found_by_its_digest(ada: Caller) -> None:
    repository, _ = _of_shop(ada)
    digest = ada.get("suites/shop").json()["contentDigest"]

    answer = ada.get(f"executions/resolve-ref?ref={repository}@{digest}")

    assert answer.json()["id"] == "shop"


@pytest.mark.parametrize("query", ["", "?ref=", "?ref=%20", "?ref=" + "x" * 501, "?ref=a%00b"])
def test_a_reference_is_required_and_bounded(ada: Caller, query: str) -> None:
    assert problem(ada.get(f"executions/resolve-ref{query}")) == (400, "invalid_parameter")


def test_other_parameters_are_refused(ada: Caller) -> None:
    answer = ada.get("executions/resolve-ref?ref=shop&tag=1")

    assert problem(answer) == (400, "unknown_parameter")


def test_a_reference_of_nothing_names_the_known_suites(ada: Caller) -> None:
    answer = ada.get("executions/resolve-ref?ref=nowhere")

    assert problem(answer) == (404, "suite_not_found")
    assert "known: " in answer.json()["detail"]


def test_nobody_without_a_session_learns_of_suites() -> None:
    assert Client().get("/api/v1/executions/resolve-ref?ref=shop").status_code == 401


def _of_shop(ada: Caller) -> tuple[str, str]:
    body = ada.get("suites/shop").json()
    return body["repository"], body["version"]
