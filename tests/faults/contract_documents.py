"""OpenAPI and Swagger documents, as calls are made from them; read anew, apart from the product."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote, unquote

from tests.faults.contract_values import compact_json

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_PLACES: Final = ("path", "query", "header", "cookie")
_OWN_HEADERS: Final = {
    ("header", name) for name in ("accept", "content-type", "content-length", "authorization")
}
_COLLECTIONS: Final = {
    "csv": ("form", False),
    "multi": ("form", True),
    "ssv": ("spaceDelimited", False),
    "pipes": ("pipeDelimited", False),
}


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
        if self.style == "deepObject":
            return [*bracketed(self.name, value)]
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
        if self.style == "label":
            return "." + ("." if self.is_exploded else ",").join(quoted)
        return self._matrix(quoted, value) if self.style == "matrix" else ",".join(quoted)

    def _matrix(self, quoted: Sequence[str], value: Any) -> str:
        if self.is_exploded and isinstance(value, dict | list):
            name = f"{self.name}=" if isinstance(value, list) else ""
            return "".join(f";{name}{each}" for each in quoted)
        return f";{self.name}={','.join(quoted)}"


def plain(value: Any) -> str:
    return value if isinstance(value, str) else compact_json(value)


def bracketed(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts of a deepObject: `name[member]` and `name[0]`, however deep."""
    if not isinstance(value, dict | list):
        yield name, plain(value)
        return
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        yield from bracketed(f"{name}[{key}]", each)


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
    deep_fields: frozenset[str]  # of forms: those whose encoding is deepObject
    is_body_required: bool
    security: Sequence[Sequence[Mapping[str, Any]]]  # alternatives of schemes
    statuses: Sequence[str]
    answers: Sequence[str]  # media types of the first answer of success

    def place(self, name: str) -> list[Parameter]:
        return [each for each in self.parameters if each.place == name]


class CallContract:
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
                if place in _PLACES and (place, name.lower()) not in _OWN_HEADERS
            ],
            bodies=bodies,
            deep_fields=self._deep_fields(found),
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
            style, exploded = _COLLECTIONS.get(
                found.get("collectionFormat", "csv"), ("form", False)
            )
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
        kinds = operation.get("consumes", self.value.get("consumes", ["*/*"]))
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

    def _deep_fields(self, operation: Mapping[str, Any]) -> frozenset[str]:
        content = self.resolve(operation.get("requestBody", {})).get("content", {})
        return frozenset(
            name
            for media in content.values()
            for name, each in media.get("encoding", {}).items()
            if each.get("style") == "deepObject"
        )

    def _security(self, operation: Mapping[str, Any]) -> list[list[Mapping[str, Any]]]:
        asked = operation.get("security", self.value.get("security", ()))
        where = "/securityDefinitions" if self.is_swagger else "/components/securitySchemes"
        schemes = self.at(f"#{where}") if asked else {}
        return [[self.resolve(schemes[name]) for name in each] for each in asked]
