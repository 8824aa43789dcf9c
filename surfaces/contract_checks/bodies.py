"""Bodies of calls and answers: by media type, as values that schemas check."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final
from urllib.parse import unquote_plus

from kernel.errors import FieldErrorDocument
from surfaces.contract_checks.parameters import (
    ABSENT,
    MAX_FIELDS,
    TextStyle,
    json_value,
    parse_fields,
)
from surfaces.contract_checks.schemas import CompiledSchema, Hidden, compile_schema
from surfaces.contract_checks.shapes import Shape
from surfaces.contract_checks.xml_values import xml_value
from surfaces.json_documents import JsonDocuments, Located
from surfaces.schemas import is_json

MAX_MEDIA_TYPES: Final = 50
MAX_XML: Final = 2**20  # bytes; a larger document is not checked
MULTIPART: Final = "multipart/"
CONTENT_TYPE: Final = "/header/Content-Type"  # the pointer of an unsupported one
MALFORMED: Final = "malformed_body"  # the code of a body that is not what its type says
FORM: Final = "application/x-www-form-urlencoded"
_BOUNDARY: Final = re.compile(r'boundary="?([^";,]{1,200})"?', re.IGNORECASE)
_DISPOSITION: Final = re.compile(rb'[; ]name="?([^";\r\n]{0,200})"?', re.IGNORECASE)
_PART_TYPE: Final = re.compile(rb"^content-type: *([^;\r\n]{1,200})", re.IGNORECASE | re.MULTILINE)
Errors = Iterable[FieldErrorDocument]


class UnknownBoundary(ValueError):
    """A multipart body whose Content-Type does not say where its parts begin."""


def media_kind(content_type: str) -> str:
    """Return a media type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


class BodyCheck:
    """The content of a request or response, compiled. `is_required` concerns requests."""

    def __init__(self, documents: JsonDocuments, owner: Located, hidden: Hidden) -> None:
        self.is_required = owner.get("required").value is True
        self._media = {
            media_kind(str(name)): MediaCheck(
                documents, Located(each, owner.file), media_kind(str(name)), hidden
            )
            for name, each in islice(owner.members("content").items(), MAX_MEDIA_TYPES)
        }
        self.media_types = ", ".join(self._media)
        self._found: dict[str, MediaCheck | None] = {}  # by Content-Type, as calls name it

    @property
    def checks_anything(self) -> bool:
        return bool(self._media) or self.is_required

    def media(self, content_type: str) -> MediaCheck | None:
        """Return the media type that stands for a Content-Type: itself, `text/*`, or `*/*`.

        The first one stands for a body whose type is not named. None is unsupported.
        """
        if content_type not in self._found:
            if len(self._found) >= MAX_MEDIA_TYPES:
                self._found.clear()
            self._found[content_type] = self._find(content_type)
        return self._found[content_type]

    def _find(self, content_type: str) -> MediaCheck | None:
        kind = media_kind(content_type)
        if not kind:
            return next(iter(self._media.values()), None)
        for known in (kind, f"{kind.partition('/')[0]}/*", "*/*"):
            if known in self._media:
                return self._media[known]
        return None


@dataclass(slots=True)
class _Part:
    media_type: str
    raw: bytes

    def text(self) -> str:
        return self.raw.decode(errors="replace")


class MediaCheck:
    """A media type of a content; made whole when the first body of it comes."""

    def __init__(self, documents: JsonDocuments, place: Located, name: str, hidden: Hidden) -> None:
        self._documents = documents
        self._place = place
        self._name = name
        self._is_json = None if "*" in name else is_json(name)
        self._hidden: Hidden = hidden
        self._schema: CompiledSchema | None = None
        self._is_compiled = False
        self._shape: Shape | None = None
        self._styles: dict[str, TextStyle] = {}

    def errors(
        self, raw: bytes, content_type: str, pointer: str, parsed: Callable[[], Any] = str
    ) -> Errors:
        """Return what is wrong with a body; `parsed` gives its JSON if that is known already.

        A text may be one, or stand for what is not JSON.
        """
        is_json_body = self._is_json
        if is_json_body is None:
            is_json_body = is_json(content_type or self._name)
        try:
            value = _json_of(raw, parsed) if is_json_body else self._value(raw, content_type)
        except UnknownBoundary as error:
            return [{"pointer": CONTENT_TYPE, "code": "invalid_value", "detail": str(error)}]
        except ValueError as error:
            return [{"pointer": pointer, "code": MALFORMED, "detail": str(error)[:200]}]
        return () if value is ABSENT else self._check(value, raw, pointer)

    def _prepare(self) -> Shape:
        if self._shape is None:
            self._shape = Shape(self._documents, self._place.get("schema"))
            for name, below in self._shape.properties.items():
                given = self._place.get("encoding", name)
                style = given.get("style").value or "form"
                explode = given.get("explode").value
                by_default = style == "form" and "object" not in below.types
                is_exploded = by_default if explode is None else explode is True
                self._styles[name] = TextStyle(str(style), is_exploded, unquote_plus)
        return self._shape

    def _check(self, value: Any, raw: bytes, pointer: str) -> Errors:
        if not self._is_compiled:
            self._is_compiled = True
            self._schema = compile_schema(self._documents, self._place.get("schema"), self._hidden)
        schema = self._schema
        if schema is None or schema.suits(value, len(raw)):
            return ()
        return schema.errors(value, pointer, len(raw))

    def _value(self, raw: bytes, content_type: str) -> Any:
        """Return the value of a body that is not JSON, ABSENT for one that is not checked.

        Raise ValueError for one that is not what its type says.
        """
        value: Any = ABSENT
        if not isinstance(self._place.get("schema").value, dict):
            return value
        shape, kind = self._prepare(), media_kind(content_type) or self._name
        if kind == FORM:
            value = self._form(parse_fields(raw.decode("latin-1")), shape)
        elif kind.startswith(MULTIPART):
            value = self._multipart(raw, content_type, shape)
        elif kind.endswith(("/xml", "+xml")) and len(raw) <= MAX_XML:
            value = xml_value(raw, shape)
        elif kind.startswith("text/") and not kind.endswith("/xml") and "object" not in shape.types:
            value = shape.value(raw.decode(errors="replace"))
        return value

    def _form(self, fields: dict[str, list[str]], shape: Shape) -> dict[str, object]:
        made: dict[str, object] = {}
        claimed: set[str] = set()
        for name, style in self._styles.items():
            below = shape.properties[name]
            value = style.read(name, fields, below)
            if value is not ABSENT:
                made[name] = value
                claimed.add(name)
                if name not in fields:  # written as several fields
                    claimed.update(below.properties)
        for name, texts in fields.items():
            if name not in claimed and name.partition("[")[0] not in claimed:
                decoded = [unquote_plus(each) for each in texts]
                made[name] = decoded[0] if len(decoded) == 1 else decoded
        return made

    def _multipart(self, raw: bytes, content_type: str, shape: Shape) -> dict[str, object]:
        made: dict[str, object] = {}
        for name, parts in _parts_of(raw, content_type).items():
            below = shape.properties.get(name)
            if below is not None and "array" in below.types and not is_json(parts[0].media_type):
                made[name] = [_part_value(each, below.items) for each in parts]
            elif below is None and len(parts) > 1:
                made[name] = [each.text() for each in parts]
            else:
                made[name] = _part_value(parts[0], below)
        return made


def _json_of(raw: bytes, parsed: Callable[[], Any]) -> Any:
    """Return the value of JSON; raise ValueError for what is none."""
    value = parsed()
    if isinstance(value, str) and (value := json_value(raw)) is ABSENT:
        raise ValueError("must be JSON")
    return value


def _part_value(part: _Part, shape: Shape | None) -> Any:
    is_object = shape is not None and bool({"object", "array"} & shape.types)
    if is_json(part.media_type) or is_object:
        value = json_value(part.raw)
        return part.text() if value is ABSENT else value
    return part.text() if shape is None else shape.value(part.text())


def _parts_of(raw: bytes, content_type: str) -> Mapping[str, list[_Part]]:
    """Return the parts of a multipart body by name; raise ValueError for one that is none."""
    found = _BOUNDARY.search(content_type)
    if found is None:
        raise UnknownBoundary("must name a boundary")
    sections = (b"\r\n" + raw).split(b"\r\n--" + found[1].strip().encode(), MAX_FIELDS + 1)
    if len(sections) < 3 and not sections[-1].startswith(b"--"):  # noqa: PLR2004 - before, a part, the end
        raise ValueError("must be parts with the boundary of its Content-Type")
    parts: dict[str, list[_Part]] = {}
    for section in sections[1:]:
        if section.startswith(b"--"):
            break
        head, _, body = section.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        if name := _DISPOSITION.search(head):
            kind = _PART_TYPE.search(head)
            text = kind[1].decode("latin-1").strip() if kind else ""
            parts.setdefault(name[1].decode(errors="replace"), []).append(_Part(text, body))
    return parts
