"""Mappings of WireMock: one, `{"mappings": [...]}`, or a folder with `mappings` and `__files`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from readers import Unreadable
from readers.json import refuse_bad_strings
from surfaces.recordings.calls import text_at
from surfaces.recordings.mock_files import Document, condition, literal, response_of
from surfaces.recordings.stubs import (
    MAX_STUBS,
    Stub,
    Stubs,
    StubUnsupported,
    base64_text,
    body_value,
    decode_text,
    mapping_at,
    translate,
)
from surfaces.recordings.wiremock_behaviors import (
    OF_RESPONSE,
    WEBHOOKS,
    behavior_of,
    callbacks_of,
)
from surfaces.recordings.wiremock_requests import Say, conditions_of_request, route_of_request

_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")  # of ANY
_DEFAULT_PRIORITY: Final = 5
_OF_RESPONSE: Final = frozenset(
    {"status", "headers", "body", "jsonBody", "base64Body", "bodyFileName", "proxyBaseUrl"}
    | {"transformers", "transformerParameters"}
    | OF_RESPONSE
)
_OF_MAPPING: Final = frozenset(
    {"id", "uuid", "name", "request", "response", "newResponse", "priority", "persistent"}
    | {"metadata", "scenarioName", "requiredScenarioState", "newScenarioState", "insertionIndex"}
    | {*WEBHOOKS}
)
_STARTED: Final = "Started"
FileAt = Callable[[str], bytes | None]


def is_wiremock(document: Any) -> bool:
    """Return whether a document is a mapping, or lists some."""
    if not isinstance(document, dict):
        return False
    listed = document.get("mappings")
    return isinstance(listed, list) or (
        isinstance(document.get("request"), dict)
        and bool({"response", "newResponse"} & document.keys())
    )


def stubs_of_wiremock(documents: Mapping[str, Any], file_at: FileAt) -> Stubs:
    """Return the stubs of documents by the name of their file.

    `file_at` returns a file that a body may come from, by its path below `__files`.
    """
    made = Stubs(title="wiremock")
    found: list[tuple[int, int, Stub]] = []
    for number, (where, mapping) in enumerate(_mappings(documents)):
        if number >= MAX_STUBS:
            made.say("WireMock", f"more than {MAX_STUBS} mappings")
            break
        priority = mapping.get("priority")
        rank = priority if isinstance(priority, int) else _DEFAULT_PRIORITY
        try:
            refuse_bad_strings(mapping)
            stubs = list(_Mapping(mapping, where, file_at, made).stubs())
        except (StubUnsupported, Unreadable) as reason:
            made.say(where, f"left out: {reason}")
            continue
        # of two with the same conditions, WireMock answers with the one that was added last
        found += [(rank, -number, stub) for stub in stubs]
    made.stubs = [stub for _, _, stub in sorted(found, key=lambda each: each[:2])]
    _say_priorities(found, made)
    return made


def _say_priorities(found: list[tuple[int, int, Stub]], made: Stubs) -> None:
    """Say where fewer conditions went first in WireMock: the best match does so here."""
    best: dict[tuple[str, str], tuple[int, int]] = {}
    for rank, _, stub in sorted(found, key=lambda each: each[:2]):
        key, conditions = (stub.method, stub.template), len(_when(stub))
        first, fewest = best.setdefault(key, (rank, conditions))
        if rank > first and conditions > fewest:
            detail = f"the priority of {stub.name}: an example with more conditions answers first"
            made.say(f"{stub.method} {stub.template}", detail)


def _when(stub: Stub) -> list[Any]:
    found = stub.example.get("when", [])
    return found if isinstance(found, list) else []


def _mappings(documents: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, document in documents.items():
        listed = document.get("mappings", [document])
        for number, each in enumerate(listed if isinstance(listed, list) else [document]):
            if isinstance(each, dict):
                called = text_at(each, "name") or text_at(each, "id")
                place = f"{name}: mappings[{number}]" if "mappings" in document else name
                yield f"{place} ({called[:60]})" if called else place, each


class _Mapping:
    def __init__(
        self, mapping: Mapping[str, Any], where: str, file_at: FileAt, made: Stubs
    ) -> None:
        self.mapping = mapping
        self.request = mapping_at(mapping, "request")
        self.response = mapping_at(mapping, "response") or mapping_at(mapping, "newResponse")
        self.file_at = file_at
        self.say: Say = lambda what: made.say(where, what)

    def stubs(self) -> Iterator[Stub]:
        """Yield the stub, for each method of `ANY`; raise StubUnsupported."""
        template, of_url = route_of_request(self.request)
        when = [*of_url, *conditions_of_request(self.request, self.say)]
        spec: Document = {}
        scenario = text_at(self.mapping, "scenarioName")
        name = text_at(self.mapping, "name") or text_at(self.mapping, "id") or template
        if scenario and (state := text_at(self.mapping, "requiredScenarioState")):
            when.append(condition("state", "state", state))
        if scenario:
            spec["state"] = self._state(scenario, name.strip()[:80])
        for key in self.mapping.keys() - _OF_MAPPING:
            self.say(f"{key} is left out")
        response = self._response(template, spec, is_free=not when)
        example: Document = {"when": when} if when else {}
        if response is not None:
            example["response"] = response
            render = self._translator(template)
            if callbacks := callbacks_of(self.mapping, render, self.say):
                example["callbacks"] = callbacks
        method = (text_at(self.request, "method") or "ANY").upper()
        if method == "ANY":
            self.say(f"the method ANY is {', '.join(_METHODS)}")
        for each in _METHODS if method == "ANY" else (method,):
            yield Stub(each, template, name, example, spec)

    def _state(self, scenario: str, name: str) -> Document:
        new = text_at(self.mapping, "newScenarioState")
        return {
            "lookupKeyTemplate": f"scenario:{literal(scenario)}",
            "defaults": {"state": _STARTED},
            "transitions": [{"onExample": name, "set": {"state": literal(new)}}] if new else [],
        }

    def _response(self, template: str, spec: Document, *, is_free: bool) -> Document | None:
        """Return the response, None for that of a proxy."""
        response = self.response
        for key in response.keys() - _OF_RESPONSE:
            self.say(f"response.{key} is left out")
        if base := text_at(response, "proxyBaseUrl"):
            if not is_free:
                raise StubUnsupported("proxyBaseUrl with conditions; only a fallback is a proxy")
            spec["fallback"] = {"mode": "proxy", "proxyUrl": f"{base.rstrip('/')}/"}
            return None
        render = self._renderer(template)
        behavior = behavior_of(response, self.say)
        headers = {
            name: render(", ".join(map(str, value)) if isinstance(value, list) else str(value))
            for name, value in mapping_at(response, "headers").items()
        }
        made = response_of(response.get("status", 200), headers, behavior=behavior)
        body = self._body()
        if body is not None:
            made["body"] = render(body)
        return made

    def _body(self) -> Any:
        response = self.response
        if "jsonBody" in response:
            return response["jsonBody"]
        if name := text_at(response, "bodyFileName"):
            text = self._file(name)
        elif "base64Body" in response:
            text = base64_text(response["base64Body"])
            if text is None:
                self.say("response.base64Body is not text and left out")
        else:
            return response["body"] if isinstance(response.get("body"), str) else None
        return None if text is None else body_value(text)

    def _file(self, name: str) -> str | None:
        content = self.file_at(name.lstrip("/"))
        text = decode_text(content)
        if content is None or text is None:
            reason = "is not text and left out" if content else "is not there"
            self.say(f"the file __files/{name[:200]} {reason}")
        return text

    def _renderer(self, template: str) -> Callable[[Any], Any]:
        listed = self.response.get("transformers")
        named = listed if isinstance(listed, list) else []
        for each in named:
            if each != "response-template":
                self.say(f"the transformer {str(each)[:60]} is left out")
        if "response-template" not in named:
            return literal
        return self._translator(template)

    def _translator(self, template: str) -> Callable[[Any], Any]:
        segments = template.strip("/").split("/")
        return lambda value: translate(value, lambda text: _expression(text, segments), self.say)


_PART: Final = re.compile(r"request\.(?:path|pathSegments)\.\[?(\d+)\]?")
_VALUE: Final = re.compile(r"request\.(query|headers)\.\[?'?([\w-]+)'?\]?(?:\.\[?0\]?)?")
_JSON_PATH: Final = re.compile(r"jsonPath request\.body '\$\.([\w.\[\]-]+)'")


def _expression(text: str, segments: list[str]) -> str:
    """Return an expression of our templates for one of WireMock's, itself if nothing is known."""
    text = text.replace("originalRequest", "request")  # as webhooks name it
    if found := _PART.fullmatch(text):
        segment = segments[int(found[1])] if int(found[1]) < len(segments) else ""
        named = re.fullmatch(r"\{(.+)\}", segment)
        return f"request.path.{named[1]}" if named else f"'{segment}'"
    if found := _VALUE.fullmatch(text):
        name = found[2].lower() if found[1] == "headers" else found[2]
        return f"request.{found[1]}.{name}"
    if found := _JSON_PATH.fullmatch(text):
        return f"request.body.{found[1]}"
    return {"request.body": "request.rawBody", "request.requestLine.method": "request.method"}.get(
        text, text
    )
