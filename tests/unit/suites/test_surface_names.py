"""Which API surface a contract is on, and how versions stay apart (control-plane 6.2)."""

from __future__ import annotations

import pytest

from tests.support.surfaces import hydrated

CARS = """{"openapi": "3.0.3", "info": {"title": "Car Shop"},
  "paths": {"/cars/{id}": {
    "parameters": [{"name": "id", "in": "path"}], "get": {}}, "/wheels": {"get": {}}}}"""
EXAMPLES = "examples: {ok: {response: {body: ok}}}"


@pytest.mark.parametrize(
    ("path", "surface"),
    [
        ("api/cars.yaml", "cars"),
        ("api/petstore-1.0.0.yaml", "petstore-1-0-0"),
        ("api/zoom.us.json", "zoom-us"),
        ("api/cars.openapi.yaml", "cars"),
        ("api/openapi.cars.v2.yaml", "cars"),
        ("api/openapi/cars.yaml", "cars"),
        ("api/Cars & Co/v1/openapi.yaml", "cars-co"),
        ("api/openapi.yaml", "car-shop"),
        ("api/v1.2.0.yaml", "car-shop"),
        ("api/2.0/openapi.yaml", "car-shop"),
    ],
)
def test_a_surface_has_the_name_of_its_contract(path, surface):
    found = hydrated({path: CARS})

    assert list(found.surfaces) == [surface]
    assert found.warnings == []


@pytest.mark.parametrize(
    ("first", "second", "surfaces"),
    [
        ("cars-openapi.json", "cars-openapi.yaml", ["cars-openapi", "cars-openapi-yaml"]),
        ("cars.v1.yaml", "cars.v2.yaml", ["cars", "cars-v2"]),
        ("v1/cars.yaml", "v2/cars.yaml", ["cars", "cars-v2"]),
        ("cars/v1/openapi.yaml", "cars/v2/openapi.yaml", ["cars", "cars-v2"]),
        ("cars/new.yaml", "cars/old.yaml", ["cars", "cars-old"]),
        ("v1/openapi.yaml", "v2/openapi.yaml", ["car-shop", "car-shop-v2"]),
    ],
)
def test_two_versions_of_a_contract_are_two_surfaces(first, second, surfaces):
    found = hydrated({f"api/{first}": CARS, f"api/{second}": CARS})

    assert sorted(found.surfaces) == surfaces
    assert [len(found.ids(each)) for each in surfaces] == [2, 2]
    assert [each[:2] for each in found.warnings] == [("mock_duplicate_operation", f"api/{second}")]
    assert found.details == [
        f'the surface "{surfaces[0]}" has GET /cars/{{id}} of api/{first}; the operations of this '
        f'contract are on the surface "{surfaces[1]}"'
    ]


def test_the_version_that_is_mocked_keeps_the_surface():
    files = {
        "api/cars.v1.yaml": CARS,
        "api/cars.v2.yaml": CARS,
        "mock/cars/wheels.metadata.yaml":
            "metadata: {sourceArtifact: 'api/cars.v2.yaml#/paths/~1wheels/get'}",
        "mock/cars/wheels.yaml": EXAMPLES,
    }  # fmt: skip
    found = hydrated(files)

    assert sorted(found.surfaces) == ["cars", "cars-v1"]
    assert found.operation("cars", "wheels")["contractPath"] == "api/cars.v2.yaml"
    assert found.ids("cars-v1") == ["get-cars-id", "get-wheels"]


def test_parts_of_one_api_share_a_surface():
    found = hydrated({
        "api/shop/cars.yaml": CARS,
        "api/shop/bikes.yaml": "{openapi: 3.0.3, paths: {/bikes: {get: {}}}}",
    })  # fmt: skip

    assert list(found.surfaces) == ["shop"]
    assert found.warnings == []


def test_names_that_are_taken_are_numbered():
    names = ["a.v1.yaml", "a.v1.yml", "a.v1.json", "A.V1.yaml", "A.V1.yml", "a.V1.yml"]
    text = '{"openapi": "3.0.3", "paths": {"/a": {"get": {}}}}'
    found = hydrated({f"api/{name}": text for name in names})

    assert sorted(found.surfaces) == ["a", "a-2", "a-v1", "a-v1-json", "a-v1-yaml", "a-v1-yml"]
    assert len(found.warnings) == 5
