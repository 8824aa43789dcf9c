"""Calls of an OpenAPI or Swagger document: valid ones and such as break one rule, from one seed.

The document is read anew here, apart from the product, which is what these calls test.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

from tests.faults.contract_values import Values, compact_json

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
BOUNDARY: Final = "partita"
UNKNOWN_TYPE: Final = "application/x-unknown"
_COLLECTIONS: Final = {
    "csv": ("form", False),
    "multi": ("form", True),
    "ssv": ("spaceDelimited", False),
    "pipes": ("pipeDelimited", False),
}


@dataclass(frozen=True)
class Call:
    """A call; `pointer` says which part of it is wrong (`/query/limit`), "" where none is."""

    rule: str
    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    pointer: str = ""

    @property
    def text(self) -> str:
        """The call in a line, which also names it."""
        headers = [f"{name}: {value}" for name, value in self.headers]
        return " | ".join([f"{self.method} {self.target}", *headers, *_shown(self.body)])


def _shown(body: bytes) -> list[str]:
    return [body.decode("utf-8", "backslashreplace")] if body else []


@dataclass(frozen=True)
class Parameter:
    name: str
    place: str
    is_required: bool
    schema: Any
    style: str
    is_exploded: bool
    is_json: bool = False  # declared by `content`

    def texts(self, value: Any) -> list[tuple[str, str]]:
        """Return what a query or a form has for a value, as names with their texts."""
        if self.is_json:
            return [(self.name, compact_json(value))]
        if self.style == "deepObject" and isinstance(value, dict):
            return [(f"{self.name}[{key}]", plain(each)) for key, each in value.items()]
        if self.is_exploded and isinstance(value, dict):
            return [(key, plain(each)) for key, each in value.items()]
        if self.is_exploded and isinstance(value, list):
            return [(self.name, plain(each)) for each in value]
        mark = {"spaceDelimited": " ", "pipeDelimited": "|"}.get(self.style, ",")
        return [(self.name, mark.join(_parts(value, pair=mark)))]

    def segment(self, value: Any) -> str:
        """Return the text of a path's segment or of a header."""
        if self.is_json:
            return compact_json(value)
        pair = "=" if self.is_exploded else ","
        quoted = [quote(each, safe="=,;.") for each in _parts(value, pair=pair)]
        match self.style:
            case "label":
                return "." + ("." if self.is_exploded else ",").join(quoted)
            case "matrix" if isinstance(value, dict) and self.is_exploded:
                return "".join(f";{each}" for each in quoted)
            case "matrix" if isinstance(value, list) and self.is_exploded:
                return "".join(f";{self.name}={each}" for each in quoted)
            case "matrix":
                return f";{self.name}={','.join(quoted)}"
        return ",".join(quoted)


def plain(value: Any) -> str:
    return value if isinstance(value, str) else compact_json(value)


def _parts(value: Any, *, pair: str) -> list[str]:
    if isinstance(value, dict):
        return [f"{key}{pair}{plain(each)}" for key, each in value.items()]
    return [plain(each) for each in value] if isinstance(value, list) else [plain(value)]


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    parameters: Sequence[Parameter]
    bodies: Mapping[str, Any]  # media type -> schema
    is_body_required: bool
    security: Sequence[Sequence[Mapping[str, Any]]]  # alternatives of schemes
    statuses: Sequence[str]
    answers: Sequence[str]  # media types of the first answer of success

    def place(self, name: str) -> list[Parameter]:
        return [each for each in self.parameters if each.place == name]


class Contract:
    """A document, whose references lead into itself."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        self.value = value

    def resolve(self, value: Any) -> Any:
        for _ in range(20):
            if not isinstance(value, dict) or not isinstance(value.get("$ref"), str):
                return value
            rest = {key: each for key, each in value.items() if key != "$ref"}
            value = self.at(value["$ref"])
            if rest and isinstance(value, dict):
                value = value | rest
        return {}

    def at(self, reference: str) -> Any:
        value: Any = self.value
        for part in unquote(reference.partition("#")[2]).split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            value = value.get(key) if isinstance(value, dict) else value[int(key)]
        return value

    @cached_property
    def is_swagger(self) -> bool:
        return "swagger" in self.value

    @cached_property
    def operations(self) -> list[Operation]:
        return [
            self._operation(path, method, item)
            for path, unresolved in self.value.get("paths", {}).items()
            for item in [self.resolve(unresolved)]
            for method in METHODS
            if method in item
        ]

    def _operation(self, path: str, method: str, item: Mapping[str, Any]) -> Operation:
        found = item[method]
        everything = [
            self.resolve(each)
            for owner in (item, found)
            for each in owner.get("parameters", ())
        ]  # fmt: skip
        unique = {(each["in"], each["name"]): each for each in everything}
        bodies, is_required = self._bodies(found, [*unique.values()])
        responses = {key: self.resolve(each) for key, each in found.get("responses", {}).items()}
        success = min((key for key in responses if key[0] == "2"), default="default")
        answer = responses.get(success, {})
        produced = found.get("produces", self.value.get("produces", ["application/json"]))
        kinds = produced if self.is_swagger and "schema" in answer else answer.get("content", {})
        return Operation(
            method=method.upper(),
            path=path,
            parameters=[
                self._parameter(each)
                for (place, name), each in unique.items()
                if place in ("path", "query", "header", "cookie")
                and (place, name.lower()) not in {("header", "accept"), ("header", "content-type"),
                                                  ("header", "authorization")}
            ],  # fmt: skip
            bodies=bodies,
            is_body_required=is_required,
            security=self._security(found),
            statuses=[*responses],
            answers=[*kinds],
        )

    def _parameter(self, found: Mapping[str, Any]) -> Parameter:
        place, style = found["in"], found.get("style", "")
        if self.is_swagger:
            schema: Any = {key: found[key] for key in found if key not in ("required", "format")}
            if "format" in found:
                schema["format"] = found["format"]
            style, exploded = _COLLECTIONS.get(found.get("collectionFormat", "csv"), ("form", False))
            if place in ("path", "header"):
                style = "simple"
        else:
            style = style or ("form" if place in ("query", "cookie") else "simple")
            exploded = found.get("explode", style == "form")
            schema = found.get("schema", {})
        content = found.get("content", {})
        for media in content.values():
            schema = media.get("schema", {})
        is_required = bool(found.get("required"))
        name = found["name"]
        return Parameter(name, place, is_required, schema, style, exploded, bool(content))

    def _bodies(
        self, operation: Mapping[str, Any], parameters: Sequence[Mapping[str, Any]]
    ) -> tuple[dict[str, Any], bool]:
        if not self.is_swagger:
            body = self.resolve(operation.get("requestBody", {}))
            content = body.get("content", {})
            found = {kind: media.get("schema", {}) for kind, media in content.items()}
            return found, bool(body.get("required"))
        kinds = operation.get("consumes", self.value.get("consumes", ["application/json"]))
        for each in parameters:
            if each["in"] == "body":
                return dict.fromkeys(kinds, each.get("schema", {})), bool(each.get("required"))
        form = {each["name"]: each for each in parameters if each["in"] == "formData"}
        if not form:
            return {}, False
        required = [name for name, each in form.items() if each.get("required")]
        fields = {
            name: {key: value for key, value in each.items() if key != "required"}
            | ({"type": "string", "format": "binary"} if each.get("type") == "file" else {})
            for name, each in form.items()
        }
        schema = {"type": "object", "properties": fields, "required": required}
        usual = [kind for kind in kinds if "form" in kind] or ["application/x-www-form-urlencoded"]
        return dict.fromkeys(usual, schema), bool(required)

    def _security(self, operation: Mapping[str, Any]) -> list[list[Mapping[str, Any]]]:
        asked = operation.get("security", self.value.get("security", ()))
        where = "/securityDefinitions" if self.is_swagger else "/components/securitySchemes"
        schemes = self.at(f"#{where}") if asked else {}
        return [[self.resolve(schemes[name]) for name in each] for each in asked]


@dataclass
class Draft:
    """The parts of a call, as values; it is written when all are there."""

    operation: Operation
    path: dict[str, Any] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)
    cookie: dict[str, Any] = field(default_factory=dict)
    media_type: str = ""
    body: Any = None
    credentials: list[tuple[str, str, str]] = field(default_factory=list)  # place, name, text
    extra: tuple[tuple[str, str], ...] = ()

    def call(self, rule: str, pointer: str = "") -> Call:
        query, cookies, headers = [], [], [*self.extra]
        for each in self.operation.parameters:
            values = getattr(self, each.place)
            if each.name not in values or each.place == "path":
                continue
            match each.place:
                case "query":
                    query += each.texts(values[each.name])
                case "cookie":
                    cookies += each.texts(values[each.name])
                case _:
                    headers.append((each.name, unquote(each.segment(values[each.name]))))
        for place, name, text in self.credentials:
            {"query": query, "cookie": cookies, "header": headers}[place].append((name, text))
        if cookies:
            headers.append(("Cookie", "; ".join(f"{name}={text}" for name, text in cookies)))
        body = b""
        if self.media_type and self.body is not None:
            kind, body = written_body(self.media_type, self.body)
            headers.append(("Content-Type", kind))
        target = self._path() + (f"?{urlencode(query, quote_via=quote)}" if query else "")
        return Call(rule, self.operation.method, target, tuple(_latin(headers)), body, pointer)

    def _path(self) -> str:
        known = {each.name: each for each in self.operation.place("path")}

        def text(found: re.Match[str]) -> str:
            name = found[1]
            return known[name].segment(self.path[name]) if name in self.path else "some-value"

        return re.sub(r"\{([^{}]*)\}", text, self.operation.path)


def _latin(headers: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for name, text in headers:
        yield name, text.encode("latin-1", "replace").decode("latin-1")


def written_body(media_type: str, value: Any) -> tuple[str, bytes]:
    """Return the Content-Type and the bytes of a body."""
    if media_type == "application/x-www-form-urlencoded" and isinstance(value, dict):
        fields = [
            (name, plain(item))
            for name, each in value.items()
            for item in (each if isinstance(each, list) else [each])
        ]
        return media_type, urlencode(fields).encode()
    if media_type.startswith("multipart/") and isinstance(value, dict):
        parts = [
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{plain(each)}\r\n'
            for name, each in value.items()
        ]
        whole = "".join(parts) + f"--{BOUNDARY}--\r\n"
        return f"{media_type}; boundary={BOUNDARY}", whole.encode()
    kind = "application/json" if media_type in ("*/*", "application/*") else media_type
    text = value if isinstance(value, str) and "json" not in kind else json.dumps(value)
    return kind, text.encode()


def is_written(media_type: str) -> bool:
    """Whether bodies of a media type are generated."""
    return "json" in media_type or media_type.startswith(
        ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain", "*/*")
    )


class Calls:
    """The calls of one operation: what suits it, and what breaks one rule."""

    def __init__(self, contract: Contract, operation: Operation, seed: str) -> None:
        self.operation = operation
        key = f"{seed} {operation.method} {operation.path}"
        self.values = Values(contract.resolve, key)
        self.lean_values = Values(contract.resolve, key, is_lean=True)

    def valid(self, *, is_lean: bool = False) -> Draft:
        """Return a call with all parts (lean: those that must be there)."""
        values = self.lean_values if is_lean else self.values
        draft = Draft(self.operation)
        for each in self.operation.parameters:
            if each.is_required or each.place == "path" or not is_lean:
                getattr(draft, each.place)[each.name] = values.sample(each.schema)
        usual = [kind for kind in self.operation.bodies if is_written(kind)]
        if usual and (self.operation.is_body_required or not is_lean):
            draft.media_type = usual[0]
            draft.body = values.sample(self.operation.bodies[usual[0]])
        draft.credentials = credentials(self.operation)
        return draft

    def wrong(self, draft: Draft) -> Iterator[Call]:
        """Yield calls that each break one rule of the contract."""
        yield from self._wrong_parameters(draft)
        yield from self._wrong_body(draft)
        if self.operation.security and all(self.operation.security):
            yield replace(draft, credentials=[]).call("credentials", "/security")

    def _wrong_parameters(self, draft: Draft) -> Iterator[Call]:
        for each in self.operation.parameters:
            values = getattr(draft, each.place)
            if each.is_required and each.place != "path" and each.name in values:
                rest = {name: value for name, value in values.items() if name != each.name}
                yield replace(draft, **{each.place: rest}).call(
                    "required parameter", f"/{each.place}/{each.name}"
                )
            if each.name not in values:
                continue
            for wrong in self.values.wrong(each.schema, values[each.name]):
                if is_text_of_another_kind(each, wrong.rule, wrong.value, values[each.name]):
                    changed = values | {each.name: wrong.value}
                    yield replace(draft, **{each.place: changed}).call(
                        f"{wrong.rule} in {each.place}", f"/{each.place}/{each.name}{wrong.pointer}"
                    )

    def _wrong_body(self, draft: Draft) -> Iterator[Call]:
        if not draft.media_type:
            return
        if self.operation.is_body_required:
            yield replace(draft, body=None).call("required body", "/body")
        if not any("*" in kind for kind in self.operation.bodies):
            yield replace(draft, media_type=UNKNOWN_TYPE).call("content type", "/body")
        kind = "body" if "json" in draft.media_type else "form"
        if draft.media_type == "text/plain":
            return
        schema = self.operation.bodies[draft.media_type]
        for wrong in self.values.wrong(schema, draft.body):
            if kind == "form" and (not wrong.pointer or isinstance(wrong.value, list | str)):
                continue
            if kind == "form" and wrong.rule == "type" and isinstance(_at(wrong), dict | list):
                continue
            changed = replace(draft, body=wrong.value)
            yield changed.call(f"{wrong.rule} in {kind}", f"/body{wrong.pointer}")


def _at(wrong: Any) -> Any:
    """Return what stands at the place of a wrong value, None where nothing is."""
    value = wrong.value
    for part in wrong.pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        try:
            value = value[int(key) if isinstance(value, list) else key]
        except (KeyError, TypeError, ValueError, IndexError):
            return None
    return value


def is_text_of_another_kind(parameter: Parameter, rule: str, wrong: Any, value: Any) -> bool:
    """Whether a wrong value is still wrong, once it is a text in a path, a query or a header."""
    if parameter.is_json:
        return True
    if isinstance(wrong, dict) != isinstance(value, dict) or wrong in ("", []):
        return False  # written like another value, or like none
    if isinstance(wrong, list) and any(isinstance(each, dict | list) for each in wrong):
        return False
    if isinstance(wrong, dict) and any(isinstance(each, dict | list) for each in wrong.values()):
        return False
    if isinstance(value, list) and not isinstance(wrong, list):
        return False  # a single text is a list of one
    return rule != "uniqueItems" or isinstance(wrong, list)


def credentials(operation: Operation) -> list[tuple[str, str, str]]:
    """Return what the first alternative of an operation's security asks for."""
    found = []
    for each in operation.security[0] if operation.security else ():
        match each["type"], each.get("scheme", "").lower():
            case "apiKey", _:
                found.append((each["in"], each["name"], "key"))
            case ("basic", _) | ("http", "basic"):
                found.append(("header", "Authorization", "Basic YWRhOnNlY3JldA=="))
            case ("http", "bearer") | ("oauth2" | "openIdConnect", _):
                found.append(("header", "Authorization", "Bearer token"))
    return found
