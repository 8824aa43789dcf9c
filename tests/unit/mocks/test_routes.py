"""Which operation a path means (reference: control-plane 18.1)."""

from __future__ import annotations

import pytest

from mocks.engine.routes import MAX_SEGMENTS, Routes
from tests.support.mocks import mocks_of

TEMPLATES = [
    "/", "/pay", "/pay/", "/pay/{id}", "/pay/new", "/pay/{id}/lines/{line}", "/pay/new/lines/{n}",
    "/{any}", "/{a}/{b}/x", "/repos/{owner}:{name}", "/repos/{owner}:{name}.json", "/repos/{all}",
    "/repos/v{n}", "/sp%20ce/{x}", "/files/{name}.{ext}", "/pay/{other}",
]  # fmt: skip


def found(path: str, method: str = "GET"):
    routes: Routes[str] = Routes()
    for template in TEMPLATES:
        routes.add("GET", template, template)
    return routes.find(method, path)


@pytest.mark.parametrize(
    ("path", "template", "params"),
    [
        ("/", "/", {}),
        ("/pay", "/pay", {}),
        ("/pay/", "/pay/", {}),
        ("/pay/7", "/pay/{id}", {"id": "7"}),
        ("/pay/new", "/pay/new", {}),
        ("/pay/n%65w", "/pay/new", {}),
        ("/pay/a%20b%2Fc", "/pay/{id}", {"id": "a b/c"}),
        ("/pay/%C3%A4", "/pay/{id}", {"id": "ä"}),
        ("/pay/a+b", "/pay/{id}", {"id": "a+b"}),
        ("/pay/7/lines/2", "/pay/{id}/lines/{line}", {"id": "7", "line": "2"}),
        ("/pay/new/lines/2", "/pay/new/lines/{n}", {"n": "2"}),
        ("/pay/new/x", "/{a}/{b}/x", {"a": "pay", "b": "new"}),
        ("/other", "/{any}", {"any": "other"}),
        ("/repos/ada:engine", "/repos/{owner}:{name}", {"owner": "ada", "name": "engine"}),
        ("/repos/a:b.json", "/repos/{owner}:{name}", {"owner": "a", "name": "b.json"}),
        ("/repos/a:b:c", "/repos/{owner}:{name}", {"owner": "a", "name": "b:c"}),
        ("/repos/:b", "/repos/{all}", {"all": ":b"}),
        ("/repos/v12", "/repos/v{n}", {"n": "12"}),
        ("/repos/v", "/repos/{all}", {"all": "v"}),
        ("/sp%20ce/1", "/sp%20ce/{x}", {"x": "1"}),
        ("/files/a.tar.gz", "/files/{name}.{ext}", {"name": "a", "ext": "tar.gz"}),
    ],
)
def test_literals_come_before_parameters_and_then_the_order(path, template, params):
    assert found(path) == (template, params)


@pytest.mark.parametrize(
    "path",
    ["/pay//lines/2", "/pay/7/lines", "/pay/7/", "/pay/7/lines/2/", "//", "/a/b", "/files/a"],
)
def test_a_parameter_is_one_segment_that_is_not_empty(path):
    assert found(path) is None


def test_the_method_must_be_the_same_and_head_is_get():
    assert found("/pay", "POST") is None
    assert found("/pay/7", "HEAD") == ("/pay/{id}", {"id": "7"})
    assert found("/pay/7", "get") is None


def test_another_method_at_a_literal_does_not_hide_a_parameter():
    routes: Routes[str] = Routes()
    routes.add("POST", "/pay/new", "post")
    routes.add("GET", "/pay/{id}", "get")
    assert routes.find("GET", "/pay/new") == ("get", {"id": "new"})
    assert routes.find("POST", "/pay/new") == ("post", {})


def test_long_templates_and_paths_are_no_danger():
    routes: Routes[str] = Routes()
    routes.add("GET", "/a" * (MAX_SEGMENTS + 1), "never")
    routes.add("GET", "/{a}" * MAX_SEGMENTS, "longest")
    assert routes.find("GET", "/a" * (MAX_SEGMENTS + 1)) is None
    assert routes.find("GET", "/a" * 100_000) is None
    assert routes.find("GET", "/a" * MAX_SEGMENTS) is not None


def test_a_surface_finds_operations_by_path_and_by_id_or_name():
    mocks = mocks_of(
        {
            "mock/pay/get.metadata.yaml": "spec: {method: GET, path: '/pay/{id}'}",
            "mock/pay/say.metadata.yaml": (
                "{metadata: {operationId: Say-1}, spec: {adapter: grpc, path: shop.Pay/Say}}"
            ),
            "mock/pay/paid.metadata.yaml": "spec: {adapter: async, path: 'orders/{id}/paid'}",
        }
    )
    surface = mocks.surface
    route = surface.route("GET", "/pay/7")
    assert route is not None
    assert (route[0].operation.operation_id, route[1]) == ("get", {"id": "7"})
    assert surface.route("POST", "/Say-1") is None
    for adapter, text, operation_id in [
        ("grpc", "Say-1", "Say-1"), ("grpc", "shop.Pay/Say", "Say-1"), ("grpc", "paid", None),
        ("async", "paid", "paid"), ("async", "orders/{id}/paid", "paid"), ("rest", "get", "get"),
        ("async", "nothing", None),
    ]:  # fmt: skip
        found = surface.find(text, adapter)
        assert (found.operation.operation_id if found else None) == operation_id


def test_operations_of_a_large_space_are_compiled_at_their_first_use():
    files = {
        f"mock/s/op{n}.metadata.yaml": f"spec: {{method: GET, path: /op{n}}}" for n in range(300)
    }
    mocks = mocks_of(files)
    found = mocks.surface.route("GET", "/op7")
    assert found is not None
    assert found[0].static is None
    compiled = [each for each in mocks.surface.operations.values() if "tables" in vars(each)]
    assert compiled == [found[0]]
