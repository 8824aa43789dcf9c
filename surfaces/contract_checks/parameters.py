"""Parameters of a call: found by place and style, typed by their schema.

The same styles write the fields of forms. (OpenAPI: style, explode, content)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, unquote_plus

import msgspec

from kernel.errors import FieldErrorDocument
from readers.json import escape_pointer
from surfaces.contract_checks.schemas import MAX_MATCHED, compile_schema
from surfaces.contract_checks.shapes import Shape
from surfaces.json_documents import JsonDocuments, Located
from surfaces.schemas import is_json

Fields = Mapping[str, Sequence[str]]  # by decoded name, the values as they came
MAX_FIELDS: Final = 1_000
SOURCES: Final = ("path", "query", "header", "cookie")
ABSENT: Final = object()
_USUAL_SIZE: Final = 1_024
_MAX_DEPTH: Final = 5  # of name[a][b]
_STYLES: Final = {"query": "form", "cookie": "form", "path": "simple", "header": "simple"}
_IGNORED: Final = ("accept", "content-type", "authorization")  # OpenAPI says so of headers
_SEPARATORS: Final[Mapping[str, re.Pattern[str]]] = {
    "spaceDelimited": re.compile(r"%20|\+| "),
    "pipeDelimited": re.compile(r"%7[Cc]|\|"),
}
_COMMA: Final = re.compile(",|%2[Cc]")  # most clients encode it, too
_INDEX: Final = re.compile(r"\d{1,9}\Z", re.ASCII)
_IN_BRACKETS: Final = re.compile(r"\[([^\[\]]*)\]")


def parse_fields(raw: str, separator: str = "&") -> dict[str, list[str]]:
    """Return the values of a query, form or Cookie header by name; at most 1,000 are read."""
    fields: dict[str, list[str]] = {}
    for part in raw.split(separator, MAX_FIELDS)[:MAX_FIELDS]:
        name, _, value = part.partition("=")
        if separator == ";":
            fields.setdefault(name.strip(), []).append(value.strip())
        elif part:
            fields.setdefault(unquote_plus(name), []).append(value)
    return fields


@dataclass(frozen=True, slots=True)
class TextStyle:
    """How a value is written as text, and how texts are decoded."""

    name: str
    explode: bool
    decode: Callable[[str], str]

    def read(self, name: str, fields: Fields, shape: Shape) -> Any:
        """Return the value of a parameter in a query, form, or the cookies, or ABSENT."""
        if self.name == "deepObject":
            found = self._deep_object(name, fields, shape)
            is_text = found is ABSENT and name in fields and shape.types - {"object", "array"}
            return self._text(fields[name][0], shape) if is_text else found
        if "object" in shape.types and self.explode and name not in fields:
            spread = {each: self._text(fields[each][0], below)
                      for each, below in shape.properties.items() if each in fields}  # fmt: skip
            return spread or ABSENT
        texts = fields.get(name)
        if texts is None:
            return ABSENT
        if "array" in shape.types and (self.explode or len(texts) > 1):
            return [self._text(each, shape.items) for each in texts]
        return self.value(texts[0], shape, _SEPARATORS.get(self.name, _COMMA))

    def value(self, text: str, shape: Shape, separator: re.Pattern[str] = _COMMA) -> Any:
        """Return what one text says: an array or object if the schema wants one."""
        types = shape.types
        if "array" in types and not ("string" in types and not separator.search(text)):
            parts = separator.split(text) if text else []
            return [self._text(each, shape.items) for each in parts]
        if "object" not in types:
            return self._text(text, shape)
        decoded = self.decode(text)
        if decoded.startswith("{"):
            return json_value(decoded.encode())
        parts = separator.split(text)
        pairs: Iterable[tuple[str, str]] = zip(parts[::2], parts[1::2], strict=False)
        if self.explode:
            pairs = (each.partition("=")[::2] for each in parts)
        return self._members(pairs, shape)

    def _members(self, pairs: Iterable[tuple[str, str]], shape: Shape) -> dict[str, object]:
        made: dict[str, object] = {}
        for name, text in pairs:
            decoded = self.decode(name)
            made[decoded] = self._text(text, shape.properties.get(decoded))
        return made

    def _text(self, text: str, shape: Shape | None) -> Any:
        decoded = self.decode(text)
        return decoded if shape is None else shape.value(decoded)

    def _deep_object(self, name: str, fields: Fields, shape: Shape) -> Any:
        made: dict[str, object] = {}
        for key, texts in fields.items():
            if not key.startswith(f"{name}["):
                continue
            steps = _IN_BRACKETS.findall(key[len(name) :])[:_MAX_DEPTH]
            if steps == [""]:  # a list of equal names
                return [self._text(each, shape.items) for each in texts]
            if steps and not steps[-1]:
                steps.pop()
            if steps:
                self._put(made, steps, texts, shape)
        return _with_lists(made, shape) if made else ABSENT

    def _put(
        self, into: dict[str, object], steps: list[str], texts: Sequence[str], shape: Shape
    ) -> None:
        below: Shape | None = shape
        for step in steps[:-1]:
            below = _shape_below(below, step)
            found: Any = into.setdefault(step, {})
            if not isinstance(found, dict):
                return
            into = found
        last = _shape_below(below, steps[-1])
        if last is not None and "array" in last.types:
            into[steps[-1]] = [self._text(each, last.items) for each in texts]
        else:
            into[steps[-1]] = self._text(texts[0], last)


def _shape_below(shape: Shape | None, step: str) -> Shape | None:
    if shape is not None and "array" in shape.types and step.isdecimal():
        return shape.items
    return shape.properties.get(step) if shape else None


def _with_lists(value: Any, shape: Shape | None) -> Any:
    """Return a value whose members `0`, `1`, … are the items of a list where one is wanted."""
    if not isinstance(value, dict) or shape is None:
        return value
    is_list = "array" in shape.types and all(_INDEX.match(step) for step in value)
    if is_list:
        return [_with_lists(value[step], shape.items) for step in sorted(value, key=int)]
    return {step: _with_lists(each, _shape_below(shape, step)) for step, each in value.items()}


def json_value(raw: bytes) -> Any:
    """Return the value of JSON, ABSENT for what is none."""
    try:
        return msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        return ABSENT


class CallValues:
    """What parameters are read from. Queries and cookies are parsed when one is asked for."""

    __slots__ = ("_cookies", "_query", "headers", "params", "raw_query")

    def __init__(
        self, params: Mapping[str, str], raw_query: str, headers: Mapping[str, str]
    ) -> None:
        self.params = params
        self.raw_query = raw_query
        self.headers = headers
        self._query: dict[str, list[str]] | None = None
        self._cookies: dict[str, list[str]] | None = None

    @property
    def query(self) -> dict[str, list[str]]:
        if self._query is None:
            self._query = parse_fields(self.raw_query)
        return self._query

    @property
    def cookies(self) -> dict[str, list[str]]:
        if self._cookies is None:
            self._cookies = parse_fields(self.headers.get("cookie", ""), ";")
        return self._cookies


class ParameterCheck:
    """One parameter, compiled."""

    def __init__(self, documents: JsonDocuments, place: Located) -> None:
        given = place.value
        self.name: str = given["name"]
        self.source: str = given["in"]
        self.pointer = f"/{self.source}/{escape_pointer(self.name)}"
        self._key = self.name.lower() if self.source == "header" else self.name
        self._is_required = given.get("required") is True or self.source == "path"
        self._may_be_empty = given.get("allowEmptyValue") is True
        media = next(iter(place.members("content").items()), None)
        schema = place.get("schema") if media is None else place.get("content", media[0], "schema")
        self._is_json = media is not None and is_json(media[0])
        self._shape = Shape(documents, schema)
        self._schema = compile_schema(documents, schema, "readOnly")
        style = str(given.get("style") or _STYLES[self.source])
        explode = given.get("explode", style == "form")
        decode = {"query": unquote_plus, "cookie": unquote}.get(self.source, str)
        self._style = TextStyle(style, explode is True, decode)
        self._is_scalar = not self._is_json and style in ("form", "simple") and not (
            {"array", "object"} & self._shape.types
        )  # fmt: skip

    def errors(self, call: CallValues) -> Iterable[FieldErrorDocument]:
        """Return what is wrong with the parameter in a call."""
        text = self._text(call)
        value: Any = self._shape.value(text) if self._is_scalar and text is not None else ABSENT
        if not self._is_scalar:
            value = self._value(call, text)
        if value is ABSENT:
            if self._is_required:
                return [{"pointer": self.pointer, "code": "required", "detail": "is required"}]
            return ()
        schema = self._schema
        if schema is None or schema.suits(value, _size(value)) or self._suits_as_text(value, text):
            return ()
        return schema.errors(value, self.pointer, _size(value))

    def _suits_as_text(self, value: Any, text: str | None) -> bool:
        """Return whether a value may be empty and is, or is meant as a text and suits so."""
        if self._may_be_empty and value in ("", [""], []):
            return True
        if text is None or isinstance(value, str | dict | list) or self._schema is None:
            return False
        types = self._shape.types
        return (not types or "string" in types) and self._schema.suits(text, len(text))

    def _text(self, call: CallValues) -> str | None:
        """Return the decoded text of the parameter; None without one."""
        source = self.source
        if source in {"query", "cookie"}:
            texts = (call.query if source == "query" else call.cookies).get(self.name)
            return self._style.decode(texts[0]) if texts else None
        return call.params.get(self.name) if source == "path" else call.headers.get(self._key)

    def _value(self, call: CallValues, text: str | None) -> Any:
        """Return what is not a scalar: JSON, or an array or object in one of the styles."""
        if self.source in {"query", "cookie"} and not self._is_json:
            fields = call.query if self.source == "query" else call.cookies
            return self._style.read(self.name, fields, self._shape)
        if text is None:
            return ABSENT
        if self._is_json:
            found = json_value(text.encode(errors="replace"))
            return text if found is ABSENT else found
        return self._path_value(text)

    def _path_value(self, text: str) -> Any:
        if self._style.name == "label":
            return self._label(text.removeprefix("."))
        if self._style.name == "matrix":
            return self._matrix(text)
        return self._style.value(",".join(each.strip() for each in text.split(",")), self._shape)

    def _label(self, text: str) -> Any:
        is_split = "," in text and not self._style.explode
        return self._style.value(text, self._shape, _COMMA if is_split else re.compile(r"\."))

    def _matrix(self, text: str) -> Any:
        fields = parse_fields(text.lstrip(";").replace(";", "&"))
        return self._style.read(self.name, fields, self._shape)


def _size(value: Any) -> int:
    """Return how many bytes a value counts as, at most; patterns see it in any case."""
    return min(len(value), MAX_MATCHED) if isinstance(value, str) else _USUAL_SIZE


def parameter_checks(
    documents: JsonDocuments, owners: Iterable[Located], path_names: Sequence[str]
) -> list[ParameterCheck]:
    """Return the checks of an operation's parameters, those of later owners before earlier ones.

    Those of the path that `path_names` lacks are left out, and headers that OpenAPI ignores.
    """
    found: dict[tuple[str, str], Located] = {}
    for owner in owners:
        for each in owner.items("parameters")[:MAX_FIELDS]:
            place = documents.resolve(Located(each, owner.file))
            source, name = place.get("in").value, place.get("name").value
            if isinstance(name, str) and source in SOURCES:
                found[source, name] = place
    return [
        ParameterCheck(documents, place)
        for (source, name), place in found.items()
        if not (source == "header" and name.lower() in _IGNORED)
        and not (source == "path" and name not in path_names)
    ]
