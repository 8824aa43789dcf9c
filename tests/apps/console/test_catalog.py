"""The catalog's pages as they are sent: filters in the address, stars, what each reader may do."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from apps.accounts import selectors as accounts_memory
from apps.accounts.models import Membership, User
from apps.console import catalog
from tests.apps.catalog.conftest import FakeIndex, index, library, workspace

__all__ = ["index", "library", "workspace"]
EVIL = '<img src=x onerror=alert(1)><script>alert("x")</script>'
SUITE = {
    "suite.star": 'task.run("t", image="busybox:1.36")\n',
    "README.md": "# The shop\nBuys and sells\n\n## How\n\n- one\n- [two](https://example.org)\n",
    "metadata.yaml": "{repository: core/shop, version: '1.1', owner: Shop team}",
    "profiles/ci.yaml": "{name: Nightly, description: All of it}",
}


@pytest.fixture
def offers(index: FakeIndex, workspace: Any, monkeypatch: pytest.MonkeyPatch) -> FakeIndex:
    monkeypatch.setattr(catalog, "registries", index.registries)
    index.registry("main", name="Team registry")
    index.offer("main", "core/shop", ["latest", "1.2", "1.1"])
    index.offer("main", "core/payments", ["2.0"])
    workspace.add("shop", SUITE)
    return index


@pytest.fixture
def reader(transactional_db: None) -> Client:
    client = Client()
    facts = {"fullName": "Ada", "email": "ada@example.org", "password": "Str0ngEnough"}
    assert client.post("/sign-up", facts).status_code == 302
    return client


def become(**facts: object) -> None:
    """Change what the readers are; requests remember it for some seconds."""
    (Membership if "role" in facts else User).objects.update(**facts)
    accounts_memory._cache.clear()


def shown(page: str) -> list[str]:
    return re.findall(r'data-package="([^"]+)"', page)


def page_of(reader: Client, path: str, status: int = 200) -> str:
    answer = reader.get(path)
    assert answer.status_code == status, answer.content
    return answer.content.decode()


def choices(page: str) -> dict[str, tuple[str, str]]:
    """The text of each choice of a facet → its address and count."""
    found = re.findall(
        r'<a id="facet-[^"]*" href="([^"]+)"[^>]*>\s*<span class="facet-text">([^<]*)</span>'
        r'\s*<span class="num quiet-text">(\d+)</span>',
        page,
    )
    return {text: (address.replace("&amp;", "&"), count) for address, text, count in found}


def test_the_catalog_shows_every_package_with_its_commands(reader: Client, offers: FakeIndex):
    page = page_of(reader, "/catalog")

    assert shown(page) == [
        "partita-postgres",
        "partita-redis",
        "main-example-com-core-payments",
        "main-example-com-core-shop",
    ]
    assert "<code>partita suite pull main.example.com/core/shop:1.1</code>" in page
    assert "<code>partita suite fork main.example.com/core/shop:1.1 ./shop</code>" in page
    assert '<a href="/catalog" aria-current="page">Catalog</a>' in page


def test_the_search_and_each_facet_are_in_the_address(reader: Client, offers: FakeIndex):
    page = page_of(reader, "/catalog?q=core")
    assert shown(page) == ["main-example-com-core-payments", "main-example-com-core-shop"]
    offered = choices(page)
    assert offered["suites"] == ("/catalog?q=core&kind=suite", "2")
    assert offered["runnable"] == ("/catalog?q=core&runnable=true", "1")
    assert offered["Shop team"] == ("/catalog?q=core&owner=Shop+team", "1")
    assert "modules" not in offered

    chosen = page_of(reader, offered["Shop team"][0])

    assert shown(chosen) == ["main-example-com-core-shop"]
    assert choices(chosen)["Shop team"] == ("/catalog?q=core", "1")
    assert choices(chosen)["Core"] == ("/catalog?q=core&owner=Core", "1")
    assert '<input type="hidden" form="catalog-search" name="owner" value="Shop team">' in chosen


@pytest.mark.parametrize(
    "query", ["kind=suite&runnable=1", "starred=no", "q=" + "x" * 201, "owner=%00"]
)
def test_a_bad_filter_is_refused(reader: Client, offers: FakeIndex, query: str):
    page_of(reader, f"/catalog?{query}", 400)


def test_what_matches_nothing_says_how_to_go_back(reader: Client, offers: FakeIndex):
    page = page_of(reader, "/catalog?q=nothing&provider=Zot")

    assert "No package matches" in page
    assert choices(page)["Zot"] == ("/catalog?q=nothing", "0")


def test_long_lists_are_paged(reader: Client, offers: FakeIndex, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(catalog, "PACKAGES_A_PAGE", 3)
    first = page_of(reader, "/catalog")

    (following,) = re.findall(r'href="([^"]+)" rel="next"', first)
    second = page_of(reader, following)

    assert len(shown(first)) == 3
    assert shown(second) == ["main-example-com-core-shop"]
    assert 'rel="next"' not in second
    assert shown(page_of(reader, "/catalog?after=gone")) == shown(first)


def test_a_star_is_set_by_a_form_and_by_htmx(reader: Client, offers: FakeIndex):
    address = "/catalog/main-example-com-core-shop/star"
    form = reader.post(address, {"starred": "true", "next": "/catalog?q=shop"})
    assert (form.status_code, form["Location"]) == (303, "/catalog?q=shop")
    assert shown(page_of(reader, "/catalog?starred=true")) == ["main-example-com-core-shop"]

    fragment = reader.post(address, {"starred": "false"}, headers={"HX-Request": "true"})

    text = fragment.content.decode()
    assert text.lstrip().startswith('<form class="star"')
    assert 'aria-pressed="false"' in text
    assert shown(page_of(reader, "/catalog?starred=true")) == []
    assert reader.post("/catalog/nowhere/star", {"starred": "true"}).status_code == 404
    elsewhere = reader.post(address, {"starred": "true", "next": "//evil.example"})
    assert elsewhere["Location"] == "/"


def test_a_failing_registry_is_named_above_its_last_good_content(reader: Client, offers: FakeIndex):
    offers.registry("down", name="Old site")
    offers.offer("down", "legacy/billing", ["9.1"])
    offers.fail("down", f"connection refused {EVIL}")

    page = page_of(reader, "/catalog")

    assert "The registry Old site could not be read." in page
    assert 'Its packages are shown as of <time datetime="2026-11-24T08:00:00.000Z"' in page
    assert "down-example-com-legacy-billing" in shown(page)
    assert EVIL not in page


def test_without_a_registry_the_page_tells_how_to_add_one(
    reader: Client, index: FakeIndex, workspace: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(catalog, "registries", index.registries)

    asked = page_of(reader, "/catalog")
    become(is_admin=True)
    told = page_of(reader, "/catalog")

    assert "No registry is configured." in asked
    assert "registryUrl: https://" in asked
    assert 'href="/settings/registries"' not in asked
    assert 'href="/settings/registries"' in told
    index.registry("new", name="Fresh")
    assert "<strong>Fresh</strong> has no package here yet." in page_of(reader, "/catalog")


def test_a_package_page_shows_readme_topology_versions_and_score(reader: Client, offers: FakeIndex):
    page = page_of(reader, "/catalog/main-example-com-core-shop")

    assert '<h3 id="readme-the-shop">The shop</h3>' in page
    assert '<a href="https://example.org" rel="noopener noreferrer nofollow">two</a>' in page
    assert 'class="graph"' in page
    assert 'href="/suites/shop"' in page
    assert "Team registry" in page
    assert re.findall(r'<th scope="row">([\w.]+)', page) == ["latest", "1.2", "1.1"]
    assert "wants a contract file in api/" in page


def test_a_package_that_is_only_listed_says_what_is_missing(reader: Client, offers: FakeIndex):
    offers.offer("main", "core/odd", ["1"], error_code="package_invalid", error_detail=EVIL)

    listed = page_of(reader, "/catalog/main-example-com-core-payments")
    odd = page_of(reader, "/catalog/main-example-com-core-odd")

    assert "Only its name and its tags are known." in listed
    assert "Its content is not known yet." in listed
    assert "Its content is not available." in odd
    assert EVIL not in odd
    assert "package_not_found" in page_of(reader, "/catalog/nowhere", 404)


def test_the_text_of_a_package_stays_text(reader: Client, offers: FakeIndex, workspace: Any):
    workspace.add("shop", {**SUITE, "README.md": f"# {EVIL}\n{EVIL}\n\n[x](javascript:alert(1))\n"})

    for path in ("/catalog", "/catalog/main-example-com-core-shop"):
        page = page_of(reader, path)
        assert EVIL not in page
        assert "<script>alert" not in page
        assert 'href="javascript' not in page


def test_who_may_launch_is_offered_the_profiles(reader: Client, offers: FakeIndex):
    for path in ("/catalog", "/catalog/main-example-com-core-shop"):
        assert re.findall(r'data-launch-suite="(\w+)" data-launch-profile="([\w.]+)"',
                          page_of(reader, path)) == [("shop", "ci.yaml")]  # fmt: skip
        become(role="viewer")
        assert "data-launch-suite" not in page_of(reader, path)
        become(role="runner")
        assert "data-launch-suite" in page_of(reader, path)


def test_a_built_in_module_shows_its_functions(reader: Client, offers: FakeIndex):
    page = page_of(reader, "/catalog/partita-redis")

    assert "A module that comes with Partita." in page
    assert "load(&quot;@partita/redis&quot;, &quot;f&quot;)" in page
    assert "<code>f(name, **kw)</code>" in page
    assert "<strong>one</strong>" in page
    assert "Versions" not in page


def test_the_order_of_the_catalog_is_in_the_address(reader: Client, offers: FakeIndex):
    by_score = page_of(reader, "/catalog?sort=score&kind=suite")
    assert shown(by_score) == ["main-example-com-core-shop", "main-example-com-core-payments"]
    assert '<option value="score" selected>' in by_score
    assert choices(by_score)["modules"][0] == "/catalog?sort=score&kind=stdlib"
    assert shown(page_of(reader, "/catalog?sort=score"))[0] != "main-example-com-core-payments"

    page_of(reader, "/catalog?sort=size", status=400)


def test_that_there_is_no_registry_stands_once_below_the_packages(
    reader: Client, workspace: Any, index: FakeIndex, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(catalog, "registries", index.registries)
    note = "No registry is configured."

    page = page_of(reader, "/catalog")
    assert page.count(note) == 1
    assert page.index('id="packages"') < page.index(note)
    assert note not in page_of(reader, "/catalog?q=redis")
