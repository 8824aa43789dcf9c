"""Suites in the habits of other tools load as they are (reference: control-plane 6, 7, 10, 18).

The suites are in tests/corpus/suites; expected.yaml beside it says what each is read as.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from apps.platform_settings.api import provider_of
from apps.profiles.api import select_profile
from apps.suites import api
from apps.suites.authoring import checks
from apps.suites.evaluation.library import Library
from mocks.engine.tables import compile_space
from mocks.model.calls import MockAnswer, MockRequest
from mocks.model.ports import SpaceContent
from mocks.model.spaces import SpaceName
from tests.support.mocks import Mocks

pytestmark = pytest.mark.slow  # a process for each evaluation

CORPUS = Path(__file__).parents[2] / "corpus"
EXPECTED: dict[str, dict[str, Any]] = yaml.safe_load((CORPUS / "expected.yaml").read_text())
SUITES = sorted(EXPECTED)


@pytest.fixture(autouse=True)
def _corpus(settings, library) -> None:
    settings.SUITES_DIR = CORPUS / "suites"


def surfaces_of(suite_id: str) -> dict[str, dict[str, str]]:
    """Return `METHOD path` by operation, by surface."""
    return {
        surface["id"]: {
            each["id"]: f"{each['method']} {each['name']}" for each in surface["operations"]
        }
        for surface in api.get_definition(suite_id)["apiSurfaces"]
    }


def mocks_of(library: Library, suite_id: str) -> Mocks:
    found = library.hydrate(api.find_suite(suite_id))
    content = SpaceContent(
        suite_id=suite_id, title="", repository="", generation="1", surfaces=found.surfaces
    )
    name = SpaceName.parse(suite_id)
    assert name is not None
    return Mocks(compile_space(content, name), [])


async def answer(mocks: Mocks, call: dict[str, Any]) -> MockAnswer:
    surface = mocks.space.surfaces[call["surface"]]
    method, _, path = call.get("call", "POST /").partition(" ")
    headers = {"content-type": "application/json", **call.get("with", {})}
    params: dict[str, str] = {}
    if "operation" in call:
        operation = surface.operations[call["operation"]]
    else:
        found = surface.route(method, path)
        assert found is not None, f"no route for {call['call']}"
        operation, params = found
    body = json.dumps(call["send"]).encode() if "send" in call else b""
    request = MockRequest(method, path, headers=headers, params=params, raw_body=body)
    return await mocks.engine.answer(operation, request)


def test_every_suite_of_the_corpus_is_expected() -> None:
    assert {each.name for each in (CORPUS / "suites").iterdir()} == set(SUITES)
    assert len(SUITES) >= 12


@pytest.mark.parametrize("suite_id", SUITES)
def test_it_resolves_under_every_profile(suite_id: str) -> None:
    verdicts = checks.check_profiles(suite_id)
    definition = api.get_definition(suite_id)

    assert [each for each in verdicts if "error" in each] == []
    assert "topologyError" not in definition, definition["topologyError"]
    assert definition["launchable"]
    assert len(definition["topology"]) == EXPECTED[suite_id]["steps"]


@pytest.mark.parametrize("suite_id", SUITES)
def test_its_warnings_are_the_expected_ones(suite_id: str) -> None:
    definition = api.get_definition(suite_id)

    codes = [each["code"] for each in definition["warnings"]]
    assert codes == EXPECTED[suite_id].get("warnings", []), definition["warnings"]


@pytest.mark.parametrize("suite_id", SUITES)
def test_its_operations_are_those_of_its_contracts_and_no_surface_is_a_twin(suite_id: str) -> None:
    assert surfaces_of(suite_id) == EXPECTED[suite_id].get("operations", {})


@pytest.mark.parametrize("suite_id", SUITES)
def test_its_mocks_answer(library: Library, suite_id: str, subtests: pytest.Subtests) -> None:
    mocks = mocks_of(library, suite_id)

    for call in EXPECTED[suite_id].get("calls", []):
        with subtests.test(call=call):
            found = asyncio.run(answer(mocks, call))
            assert found.status == call["status"], found.body
            sent = {name.lower(): value for name, value in found.headers}
            wanted = {name.lower(): value for name, value in call.get("headers", {}).items()}
            assert wanted.items() <= sent.items()
            if "text" in call:
                assert found.body.decode() == call["text"]
            if "body" in call:
                told = json.loads(found.body)
                assert {name: told.get(name) for name in call["body"]} == call["body"]


@pytest.mark.parametrize("suite_id", [name for name in SUITES if "images" in EXPECTED[name]])
def test_its_scripts_have_the_images_of_their_tools(suite_id: str) -> None:
    nodes = {node["id"]: node for node in api.get_definition(suite_id)["topology"]}

    images = EXPECTED[suite_id]["images"]
    assert {name: nodes[name]["image"] for name in images} == images


@pytest.mark.parametrize("suite_id", [name for name in SUITES if "profiles" in EXPECTED[name]])
def test_its_profiles_say_what_is_observed(suite_id: str) -> None:
    profiles = api.find_suite(suite_id).profiles
    expected = EXPECTED[suite_id]["profiles"]

    found = {
        name: dict(select_profile(profiles, name, suite_id=suite_id).observability)
        for name in expected
    }
    assert found == expected


@pytest.mark.parametrize("suite_id", [name for name in SUITES if "secrets" in EXPECTED[name]])
def test_its_secrets_have_a_provider(suite_id: str) -> None:
    (profile,) = api.find_suite(suite_id).profiles

    found = {each.key: provider_of(each.provider, each.ref) for each in profile.secret_refs}
    names = {key: each.names[0] if each else "" for key, each in found.items()}
    expected = {
        key: "local" if name == "environment" else name
        for key, name in EXPECTED[suite_id]["secrets"].items()
    }
    assert names == expected
