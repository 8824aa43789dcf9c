"""What an operation of an OpenAPI document answers without a mock: exchanges from its responses.

The first response of 2xx answers any request. A named example whose name is also that of an example
of the request answers requests like that one. Everything else can be asked for with the header
`Prefer`: `code=404`, `example=<name>`. Nothing is read before the first call.
(reference: control-plane 6.2)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final
from urllib.parse import quote

from readers.json import escape_pointer
from surfaces.contract_examples.request_examples import RequestExamples
from surfaces.contract_examples.schema_samples import SchemaSampler
from surfaces.contract_examples.template_text import literal
from surfaces.contract_examples.text_examples import (
    UnreadText,
    intended_value,
    unread_texts,
)
from surfaces.contract_examples.xml_samples import xml_text
from surfaces.json_documents import JsonDocuments, Located
from surfaces.model import Condition, Exchange, Message
from surfaces.schemas import as_text, is_json

MAX_EXCHANGES: Final = 100  # of an operation
MAX_EXAMPLES: Final = 50  # of a response
MAX_BODY: Final = 2 * 2**20  # characters
MAX_HEADERS: Final = 30
_DEFAULT: Final = "default"
_PREFER: Final = "prefer"
# not for an example to say: they depend on the body as sent, or would change the connection
_NO_HEADERS: Final = frozenset((
    "content-type", "content-length", "content-encoding", "transfer-encoding", "connection",
    "keep-alive", "upgrade", "trailer", "te", "date", "host",
))  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class OpenApiExamples:
    """The exchanges of one operation, made when asked for.

    `template` and `method` are its place below `paths` of the document `path`.
    """

    documents: JsonDocuments
    path: str
    template: str
    method: str

    def exchanges(self) -> tuple[Exchange, ...]:
        """Return the exchanges, the one that answers any request among them, if there is one."""
        operation = self.operation()
        if not isinstance(operation.value, dict):
            return ()
        made = _Exchanges(self.documents, self.path, self.request())
        return tuple(islice(made.of(operation), MAX_EXCHANGES))

    def operation(self) -> Located:
        """Return the operation of the document."""
        return self.item().get(self.method)

    def unread_texts(self) -> Iterator[UnreadText]:
        """Yield the JSON examples that are texts and stay so, though their schema wants a value."""
        pointer = f"/paths/{escape_pointer(self.template)}/{self.method}"
        return unread_texts(self.documents, self.operation(), pointer)

    def request(self) -> RequestExamples:
        """Return the parameters and examples of requests."""
        return RequestExamples(self.documents, self.item(), self.operation())

    def item(self) -> Located:
        document = Located(self.documents.value(self.path), self.path)
        return self.documents.resolve(document.get("paths", self.template))


def status_of(code: str, *, is_first: bool) -> str:
    """Return the status of a key of `responses`: `2XX` is 200, `default` beside others 500."""
    if code == _DEFAULT:
        return "200" if is_first else "500"
    return f"{code[0]}00" if code[1:].upper() == "XX" else code


def ordered_responses(responses: Mapping[str, object]) -> list[tuple[str, object]]:
    """Return status and response, the one that answers first: 2xx, `default`, the others."""

    def rank(code: str) -> int:
        return 0 if code.startswith("2") else 1 if code == _DEFAULT else 2

    known = [code for code in responses if code == _DEFAULT or _is_code(code)]
    found: dict[str, object] = {}
    for number, code in enumerate(sorted(known, key=rank)):
        found.setdefault(status_of(code, is_first=number == 0), responses[code])
    return list(found.items())


def _is_code(code: str) -> bool:
    digits = code[1:].upper().replace("XX", "00")
    return len(code) == len("200") and code[0] in "12345" and digits.isdecimal()


def _preferring(value: str) -> Condition:
    return Condition(source="header", param=_PREFER, value=value)


@dataclass(frozen=True, slots=True)
class _ResponseParts:
    """What the examples of a response have in common."""

    status: str
    media_type: str
    headers: dict[str, str]


class _Exchanges:
    def __init__(self, documents: JsonDocuments, path: str, request: RequestExamples) -> None:
        self.documents = documents
        self.path = path
        self.request = request
        self.names: set[str] = set()
        self.paired: set[tuple[Condition, ...]] = set()

    def of(self, operation: Located) -> Iterator[Exchange]:
        for number, (status, each) in enumerate(ordered_responses(operation.members("responses"))):
            response = self.documents.resolve(Located(each, operation.file))
            if isinstance(response.value, dict):
                yield from self._of_response(status, response, is_first=number == 0)

    def _of_response(self, status: str, response: Located, *, is_first: bool) -> Iterator[Exchange]:
        media_type, media = chosen_media(response)
        answer = _ResponseParts(status, media_type, self._headers(response))
        named = {name: (body, self.request.conditions(name)) for name, body
                 in self._named_examples(media_type, media)}  # fmt: skip
        free = next((name for name, (_, when) in named.items() if not when), "")
        if free:
            body: str | None = named[free][0]
        elif named:
            body = next(iter(named.values()))[0]
        else:
            body = body_text(self.documents, media_type, media)
        if is_first:
            name = self._unique(free or status, status)
            yield self._exchange(name, answer, body, example=free)
            named.pop(free, None)
        else:
            name = self._unique(status, status)
            yield self._exchange(name, answer, body, (_preferring(f"code={status}"),), example=free)
        for name, (text, when) in named.items():
            shown = self._unique(f"{name}.prefer" if when else name, status)
            asked = _preferring(f"example={shown.removesuffix('.prefer') if when else shown}")
            yield self._exchange(shown, answer, text, (asked,), example=name)
            if when and when not in self.paired:  # else an earlier example answers these requests
                self.paired.add(when)
                paired = self._unique(name, status)
                yield self._exchange(paired, answer, text, when, example=name)

    def _exchange(
        self,
        name: str,
        answer: _ResponseParts,
        body: str | None,
        when: tuple[Condition, ...] = (),
        *,
        example: str = "",
    ) -> Exchange:
        return Exchange(
            name=name,
            source_artifact=self.path,
            when=when,
            response=Message(headers=answer.headers, body=None if body is None else literal(body)),
            request=self.request.message(example),
            status=answer.status,
            media_type=answer.media_type if body is not None else "",
        )

    def _unique(self, name: str, status: str) -> str:
        made, number = name, 1
        while made in self.names:
            made = f"{status}-{name}" if number == 1 else f"{status}-{name}-{number}"
            number += 1
        self.names.add(made)
        return made

    def _named_examples(self, media_type: str, media: Located) -> Iterator[tuple[str, str]]:
        """Yield the examples of a response by name; `example` is called so."""
        found = media.members("examples")
        for name, each in islice(found.items(), MAX_EXAMPLES):
            example = self.documents.resolve(Located(each, media.file))
            if isinstance(example.value, dict) and "value" in example.value:
                text = self._example_text(media_type, example.value["value"], media)
                if len(text) <= MAX_BODY:
                    yield name, text
        if isinstance(media.value, dict) and "example" in media.value and not found:
            text = self._example_text(media_type, media.value["example"], media)
            if len(text) <= MAX_BODY:
                yield "example", text

    def _example_text(self, media_type: str, value: Any, media: Located) -> str:
        if is_json(media_type):
            value = intended_value(self.documents, value, media.get("schema"))
        return encode_body(media_type, value)

    def _headers(self, response: Located) -> dict[str, str]:
        made: dict[str, str] = {}
        for name, each in islice(response.members("headers").items(), MAX_HEADERS):
            if name.lower() in _NO_HEADERS:
                continue
            header = self.documents.resolve(Located(each, response.file))
            value = header_value(self.documents, header)
            if value:
                made[name] = value
        return made


def header_value(documents: JsonDocuments, header: Located) -> str:
    """Return the example of a header or parameter, otherwise a sample of its schema, as a text."""
    if not isinstance(header.value, dict):
        return ""
    if "example" in header.value:
        return _one_line(header.value["example"])
    for each in islice(header.members("examples").values(), 1):
        example = documents.resolve(Located(each, header.file))
        if isinstance(example.value, dict) and "value" in example.value:
            return _one_line(example.value["value"])
    if isinstance(header.value.get("schema"), dict):
        return _one_line(SchemaSampler(documents).value(header.get("schema")))
    return ""


def _one_line(value: Any) -> str:
    text = as_text(value) if value is not None else ""
    return literal(" ".join(text.split())[:2_000])


def chosen_media(message: Located) -> tuple[str, Located]:
    """Return the media type of a message that is used, JSON if there is a choice."""
    content = message.members("content")
    if not content:
        return "", Located(None, message.file)
    named = next((each for each in content if is_json(each)), None)
    chosen = named or next((each for each in content if "*" in each), next(iter(content)))
    media = message.get("content", chosen)
    if "*" in chosen:
        kind = "text/plain" if media.get("schema", "type").value == "string" else "application/json"
        return kind, media
    return chosen, media


def body_text(documents: JsonDocuments, media_type: str, media: Located) -> str | None:
    """Return a sample of the body, None for a message without content."""
    if not media_type:
        return None
    schema = media.get("schema")
    if not isinstance(schema.value, dict):
        return "{}" if is_json(media_type) and isinstance(media.value, dict) else ""
    is_binary = documents.resolve(schema).get("format").value == "binary"
    if is_binary and not is_json(media_type):
        return ""
    key = (schema.file, str(schema.value.get("$ref", "")), media_type)
    if key in documents.samples:
        return documents.samples[key]
    value = SchemaSampler(documents).value(schema)
    if "xml" in media_type.lower() and not isinstance(value, str):
        text = xml_text(documents, value, schema)
    else:
        text = encode_body(media_type, value)
    if set(schema.value) == {"$ref"}:
        documents.keep_sample(key, text)
    return text


def encode_body(media_type: str, value: Any) -> str:
    """Return a value as the body of a message."""
    kind = media_type.lower()
    if isinstance(value, str) and not is_json(media_type):
        return value
    if "form-urlencoded" in kind and isinstance(value, dict):
        return "&".join(f"{quote(key)}={quote(as_text(each))}" for key, each in value.items())
    if "event-stream" in kind:
        return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"
    if "ndjson" in kind or "jsonl" in kind:
        return json.dumps(value, ensure_ascii=False) + "\n"
    return json.dumps(value, indent=2, ensure_ascii=False)
