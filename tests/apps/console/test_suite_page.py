"""The page of a suite: README, surfaces, imported suites, source."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest
from django.test import Client

from apps.console.domain.highlights import MAX_TEXT, highlight
from apps.console.domain.markdown import markdown_html
from apps.console.domain.suite_parts import MAX_TREE_NODES, DependencyTree, operation_row
from apps.suites.authoring.locks import LockComparison
from apps.suites.dependencies.lock_file import LockedDependency, NewLock
from kernel.errors import PlatformError
from tests.apps.console import wire_samples
from tests.apps.console.conftest import FakeSuites
from tests.support.surfaces import hydrated

if TYPE_CHECKING:
    from apps.suites.domain.differences import LockDifference

EVIL = '<script>alert("x")</script>'
MARKDOWN = f"""\
# Shop

Words & {EVIL} <b>bold</b> ![logo](https://example.org/x.png) ![here](docs/a.svg)
[script](javascript:alert(1)) [file](lib/../lib/shop.py#L1) [gone](gone.md) [up](../../etc/passwd)
[section](#two-words) [there](//example.org) [out](https://example.org) [data](data:text/html,x)

## Two words

| a | b |
|---|---|
| `1` | ~~2~~ |

```python
print("<x>")
```
"""


def link(path: str) -> str:
    return f"?file={path}" if path == "lib/../lib/shop.py" else ""


def test_a_readme_is_safe_html():
    html = markdown_html(MARKDOWN, link)

    assert (
        re.findall(r"<(?!/?(?:h\d|p|a|table|thead|tbody|tr|th|td|code|pre|s)\b)[^>]*>", html) == []
    )
    assert re.findall(r'href="([^"]*)"', html) == [
        "https://example.org/x.png",
        "?file=lib/../lib/shop.py",
        "#readme-two-words",
        "https://example.org",
        "https://example.org",
    ]
    assert "&lt;script&gt;" in html
    assert '<h3 id="readme-shop">Shop</h3>' in html
    assert '<h4 id="readme-two-words">' in html
    assert 'rel="noopener noreferrer nofollow"' in html
    assert ">logo</a>" in html
    assert "here" in html


@pytest.mark.slow
@pytest.mark.parametrize("text", ["[" * 40_000, "*a" * 20_000, "![[" * 15_000, "> " * 20_000, "\0"])
def test_a_hostile_readme_is_cut_and_read(text):
    assert len(markdown_html(text, link)) < 500_000


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("starlark", 'a = "x" # why\ndef f():\n    return 1\n'),
        ("yaml", "a: [1, b]\n# c"),
        ("json", '{"a": null}'),
        ("cue", "a: string @gen(kind=uuid)"),
        ("protobuf", "message A { int32 a = 1; }"),
        ("python", "x = '''\n\n'''\n\n"),
    ],
)
def test_highlighting_keeps_every_character(language, text):
    lines = highlight(text, language)

    assert lines is not None
    assert "\n".join("".join(part for _, part in line) for line in lines) == text
    assert any(css for line in lines for css, _ in line)


@pytest.mark.parametrize(
    ("language", "text"),
    [("text", "a"), ("csv", "a"), ("python", "x" * (MAX_TEXT + 1)), ("python", "x" * 5_000)],
)
def test_what_is_unknown_or_large_stays_plain(language, text):
    assert highlight(text, language) is None


def dependency(alias: str, suite_id: str, **more: Any) -> dict[str, Any]:
    return {
        "alias": alias,
        "ref": suite_id,
        "resolved": f"{suite_id}@sha256:{'1' * 64}",
        "digest": f"sha256:{'1' * 64}",
        "suiteId": suite_id,
        "suiteTitle": suite_id,
        "repository": f"workspace/{suite_id}",
        "locked": True,
    } | more


def test_the_tree_has_what_imports_import_and_ends():
    suites: dict[str, dict[str, Any]] = {
        "a": {"id": "a", "resolvedDependencies": [dependency("b", "b"), dependency("x", "x")]},
        "b": {"id": "b", "resolvedDependencies": [dependency("a", "a"), dependency("c", "c")]},
        "c": {"id": "c"},
    }

    first, second = DependencyTree(suites).below(suites["a"])
    assert [node.dependency["alias"] for node in first.below] == ["a", "c"]
    assert [node.is_repeated for node in first.below] == [True, False]
    assert (second.dependency["alias"], second.below) == ("x", ())


def test_the_tree_is_bounded():
    wide = [dependency(f"d{n}", "b") for n in range(30)]
    suites = {name: {"id": name, "resolvedDependencies": wide} for name in ("a", "b")}

    found = DependencyTree(suites).below({"id": "root", "resolvedDependencies": wide})
    assert sum(1 + len(node.below) for node in found) <= MAX_TREE_NODES


@pytest.fixture
def shop(suites: FakeSuites) -> FakeSuites:
    evil = EVIL.replace('"', "")
    operation = f"{{operationId: list, summary: '{evil}'}}"
    paths = f"{{/goods: {{get: {operation}}}, /x: {{get: {{}}}}}}"
    found = hydrated(
        {
            "api/goods.yaml": f"{{openapi: 3.0.0, info: {{title: '{evil}'}}, paths: {paths}}}",
            "mock/goods/list.metadata.yaml": "spec: {delayMillis: 5, fallback: {mode: nowhere}}",
            "mock/goods/list.yaml": f"examples: {{'{evil}': {{response: {{body: '{evil}'}}}}}}",
        }
    )
    definition = wire_samples.definition(apiSurfaces=list(found.surfaces.values()))
    definition["sourceFiles"][0]["content"] = MARKDOWN
    definition["resolvedDependencies"] = [dependency("pay", "payments", suiteTitle=EVIL)]
    definition["warnings"] = [
        {"code": "contract_invalid", "detail": EVIL, "file": "api/x.yaml", "line": 3, "column": 9}
    ]
    suites.definitions = [definition]
    return suites


FRAGMENTS = ["/suites/shop/surfaces/goods", "/suites/shop/surfaces/goods/operations/list"]


@pytest.mark.parametrize("path", ["/suites/shop", *FRAGMENTS])
def test_text_of_a_contract_is_never_markup(reader: Client, shop: FakeSuites, path: str):
    answer = reader.get(path)
    page = answer.content.decode()

    assert answer.status_code == 200
    assert "<script>alert" not in page
    assert not re.findall(r"<style|\sstyle=|\son[a-z]+=|=.javascript:", page)


def test_a_page_shows_surfaces_folded_and_loads_their_operations(reader: Client, shop: FakeSuites):
    page = reader.get("/suites/shop").content.decode()

    assert 'hx-get="/suites/shop/surfaces/goods"' in page
    assert "2 operations, 1 with examples" in page
    assert "1 broken" in page
    assert "curl" not in page
    assert "#source-3" in page
    assert "api/x.yaml:3:9" in page
    assert f"sha256:{'1' * 64}" in page
    assert 'data-suite="shop"\n              data-profile="ci.yaml"' in page

    operations = reader.get(FRAGMENTS[0]).content.decode()
    assert re.findall(r'data-operation="([^"]+)"', operations) == ["list", "get-x"]
    assert "from the contract" in operations
    assert "broken mock" in operations


def test_an_operation_shows_its_command_mock_and_examples(reader: Client, shop: FakeSuites):
    page = reader.get(FRAGMENTS[1]).content.decode()

    assert "curl -i http://localhost:8090/mocks/rest/shop/goods/goods" in page
    assert 'data-copy="previous"' in page
    assert "5 ms" in page
    assert "is not a fallback mode; use one of static, example, proxy" in page
    assert "always matches" in page

    bare = reader.get("/suites/shop/surfaces/goods/operations/get-x").content.decode()
    assert "mock/goods/get-x.yaml" in bare


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/suites/nowhere/surfaces/goods", "suite_not_found"),
        ("/suites/shop/surfaces/x", "surface_not_found"),
        ("/suites/shop/surfaces/x/operations/list", "surface_not_found"),
        ("/suites/shop/surfaces/goods/operations/x", "operation_not_found"),
    ],
)
def test_what_is_not_there_is_404(reader: Client, shop: FakeSuites, path: str, code: str):
    answer = reader.get(path)

    assert answer.status_code == 404
    assert code in answer.content.decode()


def test_a_suite_without_api_says_how_to_get_one(reader: Client):
    page = reader.get("/suites/shop").content.decode()

    assert "This suite declares no API." in page
    assert "api/openapi.yaml" in page


def test_source_is_coloured(reader: Client):
    page = reader.get("/suites/shop?file=suite.star").content.decode()

    assert '<span class="hl-string">&quot;store&quot;</span>' in page


def locked(alias: str, before: str, after: str) -> LockedDependency:
    return LockedDependency(alias=alias, ref=alias, suite_id=alias, before=before, after=after)


def comparison(*dependencies: LockedDependency, **differences: Any) -> LockComparison:
    nothing: dict[str, Any] = {
        name: [] for name in ("added", "removed", "changed", "images", "env", "contracts")
    }
    lock = NewLock(path="dependencies.lock.yaml", dependencies=dependencies, text="", present=True)
    difference = cast("LockDifference", nothing | differences)
    return LockComparison(lock=lock, difference=difference)


def test_a_page_shows_what_a_new_lock_would_change(reader: Client, shop: FakeSuites):
    assert 'hx-get="/suites/shop/lock"' in reader.get("/suites/shop").content.decode()
    shop.lock = comparison(
        locked("pay", "sha256:old", "sha256:new"),
        added=["pay/new"],
        changed=[{"id": "pay/api", "members": ["image", "ports"]}],
        images=[{"name": "pay/api", "before": "a:1", "after": EVIL}],
        env=[{"id": "pay/api", "changes": [{"name": "LOG", "before": "", "after": "debug"}]}],
        contracts=[{"name": "pay/api/x.yaml", "before": "sha256:1", "after": "sha256:2"}],
    )

    page = reader.get("/suites/shop/lock").content.decode()

    assert "is out of date" in page
    for said in (
        "sha256:old",
        "sha256:new",
        "step added",
        "image, ports",
        "debug",
        "pay/api/x.yaml",
    ):
        assert said in page
    assert EVIL not in page


def test_a_lock_that_does_not_resolve_is_not_compared(reader: Client, shop: FakeSuites):
    found = comparison(locked("pay", "sha256:1", "sha256:2"), added=["a", "b"])
    shop.lock = replace(found, problem="another digest")

    page = reader.get("/suites/shop/lock").content.decode()
    assert "another digest" in page
    assert "it has\n  2 steps" in page
    assert "step added" not in page


def test_a_lock_that_is_current_says_so(reader: Client, shop: FakeSuites):
    shop.lock = comparison(locked("pay", "sha256:1", "sha256:1"))

    assert "The lock is up to date" in reader.get("/suites/shop/lock").content.decode()


def test_a_lock_that_cannot_be_made_says_why(reader: Client, shop: FakeSuites):
    shop.lock = PlatformError("no suite of that name", code="topology_invalid")

    page = reader.get("/suites/shop/lock")
    assert page.status_code == 200
    assert "no suite of that name" in page.content.decode()
    assert reader.get("/suites/nowhere/lock").status_code == 404


def test_summaries_are_shown_without_tags_and_placeholders_stay():
    operation = {
        "summary": '<p>Gets <a href="/docs">an <b>order</b></a> by <id>.<br/></p>',
        "exchanges": [],
        "mockMetadata": {"problems": []},
    }
    assert operation_row(operation)["summary"] == "Gets an order by <id>."


def tabs_of(page: str) -> dict[str, bool]:
    """Name of each tab → whether it is the selected one."""
    found = re.findall(r'role="tab" id="tab-(\w+)"[^>]*?aria-selected="(\w+)"', page, re.DOTALL)
    return {name: selected == "true" for name, selected in found}


def shown_panes(page: str) -> list[str]:
    return re.findall(r'role="tabpanel" id="pane-(\w+)"[^>]*?"(?: )?>', page)


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", "overview"),
        ("?tab=readme", "readme"),
        ("?tab=nonsense", "overview"),
        ("?file=README.md", "source"),
        ("?file=README.md&tab=api", "api"),
    ],
)
def test_a_suite_begins_with_runs_and_profiles_and_its_tab_is_in_the_address(
    reader: Client, shop: FakeSuites, query: str, shown: str
):
    page = reader.get(f"/suites/shop{query}").content.decode()

    assert list(tabs_of(page)) == ["overview", "readme", "topology", "api", "imports", "source"]
    assert [name for name, selected in tabs_of(page).items() if selected] == [shown]
    assert shown_panes(page) == [shown]
    assert page.index('id="runs-title"') < page.index('id="readme-title"')


def test_a_suite_that_cannot_run_begins_with_the_line_at_fault(reader: Client, suites: FakeSuites):
    suites.definitions = [wire_samples.broken_definition()]

    assert shown_panes(reader.get("/suites/shop").content.decode()) == ["source"]
