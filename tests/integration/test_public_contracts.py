"""OpenAPI documents of well-known APIs, as packages publish them: each is a working surface.

Each document is the only file of a suite, unchanged. Every operation is called through the mock
engine for each of its answers, and what comes back is checked against the document by a library.
"""

from __future__ import annotations

import json
import re
import resource
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from mocks.engine.tables import compile_space
from mocks.model.calls import MockRequest
from mocks.model.ports import SpaceContent
from mocks.model.spaces import SpaceName
from surfaces import examples_of
from surfaces.model import Exchange, Operation
from tests.support.mocks import Mocks
from tests.support.public_documents import NAMES, PublicContract, public_contract

LEAST_OPERATIONS = {"github": 1_100, "stripe": 440, "kubernetes": 800, "digitalocean": 290}
MEBIBYTE = 2**20
# Answers that cannot suit the document, with the reason.
CONTRADICTIONS = {
    # oneOf of two schemas without required members, each of which allows any other member
    ("github", "put", "/repos/{owner}/{repo}/contents/{path}", "409"),
    # the example of a date has a time as well, and stays as its author means it
    ("plaid", "post", "/item/application/list", "200"),
}


@pytest.fixture(scope="module", params=NAMES[:13])
def contract(request) -> PublicContract:
    return public_contract(request.param)


@dataclass(frozen=True)
class Answer:
    """What the engine answers to a call that asks for one example of an operation."""

    operation: Operation
    exchange: Exchange
    status: str
    media_type: str
    text: str


def _media(contract: PublicContract, answer: Answer) -> str:
    operation = answer.operation
    return contract.media(operation.method, operation.path, answer.status, answer.media_type)


async def _answers(contract: PublicContract) -> AsyncIterator[Answer]:
    """Call each operation at its route, for each of its answers."""
    content = SpaceContent(
        suite_id="public", title="", repository="", generation="1", surfaces=(contract.surface,)
    )
    space = compile_space(content, SpaceName("public"))
    compiled = space.surfaces[contract.surface.surface_id]
    engine = Mocks(space, []).engine
    for operation in contract.surface.operations:
        for exchange in examples_of(operation):
            request = _request(operation, exchange)
            found = compiled.route(request.method, request.path)
            assert found is not None
            assert found[0].operation.path == operation.path
            request.params = found[1]
            answer = await engine.answer(found[0], request)
            assert (answer.error_code, answer.example) == ("", exchange.name)
            text = answer.body.decode(errors="replace")
            yield Answer(operation, exchange, str(answer.status), answer.media_type, text)


def _request(operation: Operation, exchange: Exchange) -> MockRequest:
    """Return a request with what the example's conditions ask for."""
    wanted = {(each.source, each.param): each.value for each in exchange.when}
    body: dict[str, Any] = {}
    for (source, param), value in wanted.items():
        if source == "body":
            *folders, last = param.split(".")
            below = body
            for name in folders:
                below = below.setdefault(name, {})
            below[last] = value

    def filled(part: re.Match[str]) -> str:
        return quote(wanted.get(("path", part[1]), "some-value"), safe="")

    headers = {
        name.lower(): value for (source, name), value in wanted.items() if source == "header"
    }
    declared = exchange.declared
    assert declared is not None
    headers["accept"] = declared.media_type or "*/*"
    if declared.is_on_request:
        name = exchange.name.replace("\\", "\\\\").replace('"', '\\"')
        headers["prefer"] = f'example="{name}"'
    return MockRequest(
        operation.method,
        re.sub(r"\{([^{}]*)\}", filled, operation.path),
        headers=headers,
        query={name: value for (source, name), value in wanted.items() if source == "query"},
        raw_body=json.dumps(body).encode() if body else b"",
    )


@pytest.mark.slow
async def test_a_public_document_alone_is_a_surface_whose_answers_suit_it(contract):
    surface = contract.surface
    declared = sum(
        method in ("get", "put", "post", "delete", "options", "head", "patch", "trace")
        for item in contract.document["paths"].values()
        for method in item
    )
    assert len(surface.operations) == declared >= LEAST_OPERATIONS.get(contract.name, 10)
    assert all(examples_of(each)[0].when == () for each in surface.operations)

    seen: set[tuple[str, str]] = set()
    checked = of_the_document = 0
    wrong: list[str] = []
    async for answer in _answers(contract):
        if not (media := _media(contract, answer)):
            continue
        checked += 1
        if (key := (str(contract.at(media)["schema"]), answer.text)) in seen:
            continue
        seen.add(key)
        value = json.loads(answer.text)
        error = next(contract.errors(value, f"{media}/schema"), None)
        operation = answer.operation
        place = (contract.name, operation.method.lower(), operation.path, answer.status)
        if error is None or place in CONTRADICTIONS:
            continue
        if contract.is_declared(value, media):  # an example that breaks its own schema
            of_the_document += 1
        else:
            wrong.append(f"{place} {answer.exchange.name}: {error.json_path} {error.message[:200]}")

    assert wrong == []
    assert checked >= len(surface.operations) // 2
    assert of_the_document <= checked // 8


async def test_the_library_refuses_what_does_not_suit(contract):
    """The check above can fail: most schemas do not take any text."""
    schemas: list[str] = []
    async for answer in _answers(contract):
        if media := _media(contract, answer):
            schemas.append(f"{media}/schema")
        if len(schemas) == 50:
            break
    refused = [next(contract.errors("no such answer", each), None) is not None for each in schemas]
    assert sum(refused) > len(schemas) * 0.8


@pytest.mark.timed
@pytest.mark.slow
def test_a_large_document_is_read_in_seconds_and_little_memory():
    contract = public_contract("github")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert contract.surface.operations
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert contract.seconds < 15  # 2 seconds on a quiet machine
    assert grown < 400 * MEBIBYTE
