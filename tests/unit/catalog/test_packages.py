"""What the catalog unites, rule by rule (reference: control-plane 5.1)."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.catalog.domain.packages import PackageDocument, merge_packages
from apps.oci.api import MODULE_TYPE
from kernel.ids import is_identifier
from kernel.version import VERSION
from tests.unit.catalog.samples import HOST, module, repository, suite


def packages(*repositories: Any, suites: Any = (), modules: Any = ()) -> list[PackageDocument]:
    providers = {each.registry_id: "Zot" for each in repositories}
    entries = merge_packages(repositories, providers, suites, modules)
    return [entry["package"] for entry in entries]


def test_a_repository_that_nobody_knows_is_described_by_its_name():
    (package,) = packages(repository("core-team/payment-api", "latest", "1.2", "1.1"))

    assert package == {
        "id": "registry-example-com-core-team-payment-api",
        "kind": "suite",
        "title": "Payment Api",
        "repository": f"{HOST}/core-team/payment-api",
        "owner": "Core Team",
        "provider": "Zot",
        "version": "1.2",
        "tags": ["latest", "1.2", "1.1"],
        "description": "",
        "modules": [],
        "status": "Listed",
        "score": 0,
        "pullCommand": f"partita suite pull {HOST}/core-team/payment-api:1.2",
        "forkCommand": f"partita suite fork {HOST}/core-team/payment-api:1.2 ./payment-api",
        "inspectable": False,
        "registryId": "main",
    }


@pytest.mark.parametrize(
    ("path", "facts", "kind"),
    [
        ("@partita/kafka", {}, "stdlib"),
        ("core/@kafka", {}, "stdlib"),
        ("core/kafka", {"artifact_type": MODULE_TYPE}, "stdlib"),
        ("core/kafka", {}, "suite"),
    ],
)
def test_the_kind_of_a_repository_that_nobody_knows(path: str, facts: dict[str, Any], kind: str):
    assert packages(repository(path, **facts))[0]["kind"] == kind


@pytest.mark.parametrize("named", [f"{HOST}/core/shop", "core/shop"])
def test_a_repository_and_the_suite_of_that_name_are_one_package(named: str):
    known = suite("shop", repository=named, version="1.1")

    (package,) = packages(repository("core/shop", "latest", "1.2", "1.1"), suites=[known])

    assert package == {
        "id": "registry-example-com-core-shop",
        "kind": "suite",
        "title": "Shop",
        "repository": f"{HOST}/core/shop",
        "owner": "Core",
        "provider": "Zot",
        "version": "1.1",
        "tags": ["latest", "1.2", "1.1"],
        "description": "What shop checks",
        "modules": ["postgres"],
        "status": "Installed",
        "score": 80,
        "pullCommand": f"partita suite pull {HOST}/core/shop:1.1",
        "forkCommand": f"partita suite fork {HOST}/core/shop:1.1 ./shop",
        "inspectable": True,
        "registryId": "main",
        "suiteId": "shop",
    }


def test_a_version_that_the_registry_lacks_does_not_count():
    (package,) = packages(
        repository("core/shop", "latest", "1.2"), suites=[suite("shop", repository="core/shop")]
    )

    assert package["version"] == "1.2"


def test_the_digest_is_that_of_the_version_shown_or_absent():
    offered = repository("core/shop", "latest", "1.2", "1.1", digest="sha256:12")
    assert packages(offered)[0]["digest"] == "sha256:12"

    known = suite("shop", repository="core/shop", version="1.1")

    assert "digest" not in packages(offered, suites=[known])[0]


def test_content_that_was_pulled_is_verified():
    offered = repository("core/shop", "2.0", pulled=True, suite_id="shop")
    known = suite("shop", repository=f"{HOST}/core/shop", is_remote=True, version="0.9")

    (package,) = packages(offered, suites=[known])

    assert (package["status"], package["suiteId"]) == ("Verified", "shop")
    assert package["version"] == "2.0"
    assert packages(offered)[0]["status"] == "Verified"


def test_a_package_that_was_refused_is_only_listed_though_its_suite_says_why():
    offered = repository("core/shop", "2.0", suite_id="shop", error_detail="a link leads out of it")

    (package,) = packages(offered, suites=[suite("shop", repository="x", is_remote=True)])

    assert (package["status"], package["suiteId"]) == ("Listed", "shop")
    assert package["error"] == "a link leads out of it"


@pytest.mark.parametrize("named", [f"{HOST}/core/shop", f"{HOST}/elsewhere"])
def test_the_suite_that_was_pulled_is_no_second_package_beside_that_of_the_workspace(named: str):
    offered = repository("core/shop", "2.0", pulled=True, suite_id="core-shop")
    own = suite("shop", repository="core/shop")
    pulled = suite("core-shop", repository=named, is_remote=True)

    (package,) = packages(offered, suites=[own, pulled])

    assert (package["suiteId"], package["status"]) == ("shop", "Installed")


def test_a_suite_of_the_workspace_is_a_package():
    (package,) = packages(suites=[suite("shop")])

    assert package["id"] == "workspace-shop"
    assert (package["provider"], package["status"]) == ("Workspace", "Installed")
    assert (package["version"], package["tags"]) == ("workspace", ["workspace"])
    assert package["inspectable"]
    assert package["suiteId"] == "shop"
    assert {"registryId", "digest"}.isdisjoint(package)


def test_a_built_in_module_is_official():
    (package,) = packages(modules=[module("postgres")])

    assert package == {
        "id": "partita-postgres",
        "kind": "stdlib",
        "title": "@partita/postgres",
        "repository": "partita/postgres",
        "owner": "Partita",
        "provider": "Built-in",
        "version": VERSION,
        "tags": [VERSION],
        "description": "A server and its tasks",
        "modules": ["postgres"],
        "status": "Official",
        "score": 100,
        "inspectable": False,
    }


def test_the_first_registry_wins_a_repository_that_two_offer():
    found = packages(
        repository("core/shop", "1.0", registry_id="first"),
        repository("core/shop", "2.0", registry_id="second"),
        repository("core/shop", "3.0", registry_id="third", host="other.example.com"),
    )

    assert [(each["registryId"], each["version"]) for each in found] == [
        ("third", "3.0"),
        ("first", "1.0"),
    ]


def test_repositories_with_equal_slugs_all_get_digits_of_their_name():
    found = packages(repository("a/b-c"), repository("a-b/c"), repository("other"))

    ids = {each["repository"]: each["id"] for each in found}
    digits = {
        path: sha256(f"{HOST}/{path}".encode()).hexdigest()[:6] for path in ("a/b-c", "a-b/c")
    }
    assert ids == {
        f"{HOST}/a/b-c": f"registry-example-com-a-b-c-{digits['a/b-c']}",
        f"{HOST}/a-b/c": f"registry-example-com-a-b-c-{digits['a-b/c']}",
        f"{HOST}/other": "registry-example-com-other",
    }


def test_the_id_of_a_built_in_module_stays():
    found = packages(suites=[suite("x", repository="partita/redis")], modules=[module("redis")])

    assert [each["id"] for each in found if each["kind"] == "stdlib"] == ["partita-redis"]
    (own,) = [each["id"] for each in found if each["kind"] == "suite"]
    assert own.startswith("partita-redis-")


def test_a_fork_that_kept_the_repository_has_an_own_package():
    both = [suite("shop", repository="core/shop"), suite("shop-2", repository="core/shop")]

    alone = packages(suites=both)
    offered = packages(repository("core/shop"), suites=both)

    assert [each["suiteId"] for each in alone] == ["shop", "shop-2"]
    assert alone[0]["id"] == "core-shop"
    assert alone[1]["id"].startswith("core-shop-")
    assert {each["repository"] for each in offered} == {f"{HOST}/core/shop", "core/shop"}


def test_the_order_is_by_kind_and_title_whatever_its_case():
    found = packages(
        suites=[suite("b", title="beta"), suite("a", title="Alpha"), suite("c", title="Gamma")],
        modules=[module("redis"), module("kafka")],
    )

    assert [each["title"] for each in found] == [
        "@partita/kafka",
        "@partita/redis",
        "Alpha",
        "beta",
        "Gamma",
    ]


NAMES = st.text(min_size=1, max_size=200)


@given(st.lists(NAMES, max_size=8), st.lists(NAMES, max_size=8))
def test_whatever_repositories_are_called_each_has_one_id(paths: list[str], named: list[str]):
    suites = [suite(f"s{at}", repository=name) for at, name in enumerate(named)]

    found = packages(*map(repository, paths), suites=suites, modules=[module("redis")])

    ids = [each["id"] for each in found]
    assert len(set(ids)) == len(ids)
    assert all(map(is_identifier, ids))
