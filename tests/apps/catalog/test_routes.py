"""The five routes of the catalog (reference: control-plane 5.1)."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.accounts.api import TokenScope, create_api_token
from apps.accounts.models import User
from apps.accounts.services.sign_up import sign_up
from tests.apps.catalog.conftest import PASSWORD, FakeIndex, client_of
from tests.support.api_clients import problem
from tests.support.people import principal_of

pytestmark = pytest.mark.urls("tests.apps.catalog.urlconf")
GOOD = 'task.run("t", image="busybox:1.36")\n'
PACKAGES = "/api/v1/catalog/packages"
FAVORITES = "/api/v1/catalog/favorites"


@pytest.fixture
def offers(index: FakeIndex, workspace: Any) -> FakeIndex:
    index.registry("main")
    index.offer("main", "core/shop", ["latest", "1.2", "1.1"], digest="sha256:12")
    index.offer("main", "core/payments", ["2.0"])
    workspace.add("shop", {
        "suite.star": 'load("@partita/postgres", "pg")\npg()\n',
        "README.md": "# The shop\nBuys and sells\n",
        "metadata.yaml": "{repository: core/shop, version: '1.1'}",
    })  # fmt: skip
    workspace.add("broken", "nope")
    return index


def ids(answer: Any) -> list[str]:
    return [package["id"] for package in answer.json()["packages"]]


def test_the_list_unites_all_sources_by_kind_and_title(client: APIClient, offers: FakeIndex):
    answer = client.get(PACKAGES).json()

    shown = [(each["title"], each["provider"], each["status"]) for each in answer["packages"]]
    assert shown[:2] == [
        ("@partita/postgres", "Built-in", "Official"),
        ("@partita/redis", "Built-in", "Official"),
    ]
    assert shown[-3:] == [
        ("Broken", "Workspace", "Installed"),
        ("Payments", "Zot", "Listed"),
        ("The shop", "Zot", "Installed"),
    ]
    assert answer["total"] == len(shown)
    assert answer["warnings"] == []
    assert "nextCursor" not in answer


def test_a_package_says_everything(client: APIClient, offers: FakeIndex):
    answer = client.get(f"{PACKAGES}/main-example-com-core-shop")

    assert answer.json() == {
        "id": "main-example-com-core-shop",
        "kind": "suite",
        "title": "The shop",
        "repository": "main.example.com/core/shop",
        "owner": "Core",
        "provider": "Zot",
        "version": "1.1",
        "tags": ["latest", "1.2", "1.1"],
        "description": "Buys and sells",
        "modules": ["postgres"],
        "status": "Installed",
        "score": 60,
        "pullCommand": "partita suite pull main.example.com/core/shop:1.1",
        "forkCommand": "partita suite fork main.example.com/core/shop:1.1 ./shop",
        "inspectable": True,
        "starred": False,
        "suiteId": "shop",
        "registryId": "main",
    }


@pytest.mark.parametrize(
    ("query", "titles"),
    [
        ("kind=stdlib&q=post", ["@partita/postgres"]),
        ("provider=Workspace", ["Broken"]),
        ("provider=Zot&kind=suite", ["Payments", "The shop"]),
        ("module=postgres", ["@partita/postgres", "The shop"]),
        ("q=SELLS", ["The shop"]),
        ("q=core/PAY", ["Payments"]),
        ("q=postgres&kind=suite", ["The shop"]),
        ("q=nothing", []),
        ("starred=true", []),
        ("starred=false&q=sells", ["The shop"]),
    ],
)
def test_the_list_is_filtered(client: APIClient, offers: FakeIndex, query: str, titles: list[str]):
    answer = client.get(f"{PACKAGES}?{query}").json()

    assert [each["title"] for each in answer["packages"]] == titles
    assert answer["total"] == len(titles)


def test_the_list_is_paged_and_stays_in_order_while_packages_come(
    client: APIClient, offers: FakeIndex
):
    everything = ids(client.get(PACKAGES))
    first = client.get(f"{PACKAGES}?limit=2").json()
    offers.offer("main", "a/aaaa", ["1"])  # a suite comes after all modules
    seen = [each["id"] for each in first["packages"]]
    cursor = first["nextCursor"]
    while cursor:
        page = client.get(f"{PACKAGES}?limit=2&cursor={cursor}").json()
        seen += [each["id"] for each in page["packages"]]
        cursor = page.get("nextCursor")

    assert sorted(seen) == sorted([*everything, "main-example-com-a-aaaa"])


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("?x=1", (400, "unknown_parameter")),
        ("?kind=module", (400, "invalid_parameter")),
        ("?starred=maybe", (400, "invalid_parameter")),
        ("?limit=201", (400, "invalid_parameter")),
        ("?cursor=x", (400, "invalid_cursor")),
        ("/nowhere", (404, "package_not_found")),
        ("/partita-postgres?x=1", (400, "unknown_parameter")),
    ],
)
def test_a_bad_request_is_refused(
    client: APIClient, offers: FakeIndex, path: str, expected: tuple[int, str]
):
    assert problem(client.get(PACKAGES + path)) == expected


def test_a_package_has_an_etag_of_the_readers_own_view(client: APIClient, offers: FakeIndex):
    path = f"{PACKAGES}/main-example-com-core-payments"
    first = client.get(path)
    again = client.get(path, HTTP_IF_NONE_MATCH=first["ETag"])
    client.post(f"{FAVORITES}/main-example-com-core-payments")
    starred = client.get(path, HTTP_IF_NONE_MATCH=first["ETag"])

    assert (again.status_code, again.content) == (304, b"")
    assert (starred.status_code, starred.json()["starred"]) == (200, True)


def test_a_failing_registry_is_a_warning_beside_its_last_good_content(
    client: APIClient, offers: FakeIndex
):
    """Invariant 37."""
    offers.registry("down")
    offers.offer("down", "core/kept", ["1.0"])
    offers.fail("down", "connection refused")

    answer = client.get(PACKAGES)

    assert answer.status_code == 200
    assert "down-example-com-core-kept" in ids(answer)
    assert "main-example-com-core-shop" in ids(answer)
    assert answer.json()["warnings"] == [
        {"registryId": "down", "code": "registry_unreachable", "detail": "connection refused"}
    ]


def test_a_package_that_was_refused_is_listed_with_the_reason(client: APIClient, offers: FakeIndex):
    """Invariant 25."""
    why = "tasks/x is a link"
    offers.offer("main", "core/odd", ["1"], error_code="package_invalid", error_detail=why)

    package = client.get(f"{PACKAGES}/main-example-com-core-odd").json()

    assert (package["status"], package["inspectable"]) == ("Listed", False)
    assert package["error"] == why


def test_favorites_are_idempotent_and_each_users_own(client: APIClient, offers: FakeIndex):
    bob = client_of(sign_up(full_name="Bob", email="bob@example.org", password=PASSWORD))
    path = f"{FAVORITES}/partita-redis"

    for _ in range(2):
        added = client.post(path)
        assert (added.status_code, added.json()) == (
            200,
            {"packageId": "partita-redis", "starred": True},
        )
    assert client.get(FAVORITES).json() == {"packageIds": ["partita-redis"]}
    assert ids(client.get(f"{PACKAGES}?starred=true")) == ["partita-redis"]
    assert bob.get(FAVORITES).json() == {"packageIds": []}
    assert ids(bob.get(f"{PACKAGES}?starred=true")) == []
    for _ in range(2):
        removed = client.delete(path)
        assert (removed.status_code, removed.json()) == (
            200,
            {"packageId": "partita-redis", "starred": False},
        )
    assert client.get(FAVORITES).json() == {"packageIds": []}


def test_only_what_is_there_can_be_marked_and_any_mark_can_be_taken_away(
    client: APIClient, offers: FakeIndex
):
    assert problem(client.post(f"{FAVORITES}/nowhere")) == (404, "package_not_found")
    for name in ("nowhere", "x" * 500, "%00", "%F0%9F%98%80"):
        assert client.delete(f"{FAVORITES}/{name}").status_code == 200


def test_a_favorite_stays_while_its_package_is_gone(client: APIClient, offers: FakeIndex):
    client.post(f"{FAVORITES}/main-example-com-core-payments")
    offers.configured.clear()

    assert ids(client.get(f"{PACKAGES}?starred=true")) == []
    assert client.get(FAVORITES).json()["packageIds"] == ["main-example-com-core-payments"]
    offers.registry("main")
    assert ids(client.get(f"{PACKAGES}?starred=true")) == ["main-example-com-core-payments"]


@pytest.mark.parametrize(
    ("scope", "status"), [(TokenScope.READ, 403), (TokenScope.RUN, 200), (TokenScope.ADMIN, 200)]
)
def test_an_api_token_that_only_reads_marks_nothing(
    ada: User, offers: FakeIndex, scope: TokenScope, status: int
):
    token = create_api_token(principal_of(ada), name="x", scope=scope, days=1).token
    program = APIClient()
    program.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")

    assert program.get(PACKAGES).status_code == 200
    assert program.get(FAVORITES).status_code == 200
    assert program.post(f"{FAVORITES}/partita-redis").status_code == status
    assert program.delete(f"{FAVORITES}/partita-redis").status_code == status


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("get", PACKAGES),
        ("get", f"{PACKAGES}/x"),
        ("get", FAVORITES),
        ("post", f"{FAVORITES}/x"),
        ("delete", f"{FAVORITES}/x"),
    ],
)
def test_nobody_sees_the_catalog_without_a_session(method: str, path: str):
    assert getattr(APIClient(), method)(path).status_code == 401
