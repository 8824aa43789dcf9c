"""What an operation of an OpenAPI document answers without a mock: exchanges from its responses.

The lowest 2xx response answers any request. A named example whose name is also that of an example
of the request answers requests like that one. Everything else is there for callers that ask for it
by `Prefer`. Each media type has exchanges of its own. Nothing is read before the first call.
(reference: control-plane 6.2)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from random import Random
from typing import Any, Final

from readers.json import escape_pointer
from surfaces.contract_examples.bodies import (
    Body,
    Media,
    example_body,
    media_at,
    media_of,
    sample_body,
    value_body,
)
from surfaces.contract_examples.request_examples import RequestExamples
from surfaces.contract_examples.schema_samples import SchemaSampler
from surfaces.contract_examples.template_text import literal
from surfaces.contract_examples.text_examples import (
    UnreadText,
    broken_examples,
    unread_texts,
    unread_values,
)
from surfaces.json_documents import JsonDocuments, Located
from surfaces.model import Condition, ContractPlace, Exchange, Message
from surfaces.schemas import as_text

MAX_EXCHANGES: Final = 100  # of an operation
MAX_EXAMPLES: Final = 50  # of a response
MAX_HEADERS: Final = 30
_DEFAULT: Final = "default"
# not for an example to say: they depend on the body as sent, or would change the connection
_NO_HEADERS: Final = frozenset((
    "content-type", "content-length", "content-encoding", "transfer-encoding", "connection",
    "keep-alive", "upgrade", "trailer", "te", "date", "host",
))  # fmt: skip

NO_CONTENT: Final = Media("", "", Located(None, ""))


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
        return tuple(islice(_Exchanges(self).of(operation), MAX_EXCHANGES))

    def fresh_body(self, response: str, media_type: str, randomness: Random) -> Body | None:
        """Return another sample of a response's schema, None where it has none."""
        operation = self.operation()
        at = Located(operation.members("responses").get(response), operation.file)
        media = media_at(self.documents.resolve(at), media_type)
        if not isinstance(media.schema.value, dict):
            return None
        return sample_body(self.documents, media, randomness)

    def operation(self) -> Located:
        """Return the operation of the document."""
        return self.item().get(self.method)

    def unread_texts(self) -> Iterator[UnreadText]:
        """Yield the JSON examples that are texts and stay so, though their schema wants a value."""
        return unread_texts(self.documents, self.operation(), self._pointer)

    def unread_values(self) -> Iterator[UnreadText]:
        """Yield the examples whose `externalValue` leads to nothing that is here."""
        return unread_values(self.documents, self.operation(), self._pointer)

    def broken_examples(self) -> Iterator[UnreadText]:
        """Yield the examples that break their schema."""
        pointer = self._pointer.rpartition("/")[0]
        return broken_examples(self.documents, self.item(), self.method, pointer)

    @property
    def _pointer(self) -> str:
        return f"/paths/{escape_pointer(self.template)}/{self.method}"

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


def ordered_responses(responses: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return key and status of each response, first the lowest 2xx, then `default`; 1xx last."""

    def rank(code: str) -> tuple[int, str]:
        if code.startswith("2"):
            return 0, code.upper()
        return 1 if code == _DEFAULT else 3 if code.startswith("1") else 2, ""

    known = sorted((code for code in responses if code == _DEFAULT or _is_code(code)), key=rank)
    return [(code, status_of(code, is_first=number == 0)) for number, code in enumerate(known)]


def _is_code(code: str) -> bool:
    digits = code[1:].upper().replace("XX", "00")
    return len(code) == len("200") and code[0] in "12345" and digits.isdecimal()


@dataclass(frozen=True, slots=True)
class _Response:
    """A response of the operation, and what its examples have in common."""

    key: str
    status: str
    headers: dict[str, str]
    media: list[Media]
    is_first: bool


class _Exchanges:
    def __init__(self, owner: OpenApiExamples) -> None:
        self.owner = owner
        self.documents = owner.documents
        self.request = owner.request()
        self.names: set[str] = set()
        self.paired: dict[tuple[Condition, ...], tuple[str, set[str]]] = {}

    def of(self, operation: Located) -> Iterator[Exchange]:
        """Yield those of each response's first media type, then those of the others."""
        found = list(self._responses(operation))
        for response in found:
            yield from self._of_media(response, response.media[0] if response.media else NO_CONTENT)
        for response in found:
            for media in response.media[1:]:
                kind = media.type.partition(";")[0].rpartition("/")[2].strip()
                yield from self._of_media(response, media, f".{kind}")

    def _responses(self, operation: Located) -> Iterator[_Response]:
        responses = operation.members("responses")
        for number, (key, status) in enumerate(ordered_responses(responses)):
            at = self.documents.resolve(Located(responses[key], operation.file))
            if isinstance(at.value, dict):
                yield _Response(key, status, self._headers(at), media_of(at), number == 0)

    def _of_media(self, response: _Response, media: Media, suffix: str = "") -> Iterator[Exchange]:
        named = {name: (body, self.request.conditions(name)) for name, body
                 in self._named_examples(media)}  # fmt: skip
        free = next((name for name, (_, when) in named.items() if not when), "")
        body: Body | None = None
        if named:
            body = named[free][0] if free else next(iter(named.values()))[0]
        elif media is not NO_CONTENT:
            body = sample_body(self.documents, media)
        status = response.status if response.status not in self.names else response.key
        name = (free or status) if response.is_first else status
        made = _ExchangeMaker(self, response, media, suffix)
        yield made.exchange(name, body, example=free, is_on_request=not response.is_first)
        named.pop(free, None)
        for name, (body, when) in named.items():
            if self._is_new_pair(when, response, media):
                yield made.exchange(name, body, when, example=name, is_on_request=False)
            else:
                yield made.exchange(name, body, example=name, is_on_request=True)

    def _is_new_pair(self, when: tuple[Condition, ...], response: _Response, media: Media) -> bool:
        """Return whether no earlier example answers these requests, but in other media types."""
        known = self.paired.setdefault(when, (response.key, set()))
        is_new = bool(when) and known[0] == response.key and media.key not in known[1]
        known[1].add(media.key)
        return is_new

    def unique(self, name: str, status: str) -> str:
        """Return a name that no exchange has yet."""
        made, number = name, 1
        while made in self.names:
            made = f"{status}-{name}" if number == 1 else f"{status}-{name}-{number}"
            number += 1
        self.names.add(made)
        return made

    def _named_examples(self, media: Media) -> Iterator[tuple[str, Body]]:
        """Yield the examples of a response by name; `example` is called so."""
        found = media.at.members("examples")
        for name, each in islice(found.items(), MAX_EXAMPLES):
            example = self.documents.resolve(Located(each, media.at.file))
            body = example_body(self.documents, media, example)
            if body is not None:
                yield name, body
        if isinstance(media.at.value, dict) and "example" in media.at.value and not found:
            body = value_body(self.documents, media, media.at.value["example"])
            if body is not None:
                yield "example", body

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


@dataclass(frozen=True, slots=True)
class _ExchangeMaker:
    """Makes the exchanges of one media type of a response."""

    of: _Exchanges
    response: _Response
    media: Media
    suffix: str

    def exchange(
        self,
        name: str,
        body: Body | None,
        when: tuple[Condition, ...] = (),
        *,
        example: str,
        is_on_request: bool,
    ) -> Exchange:
        owner, response, media = self.of.owner, self.response, self.media
        return Exchange(
            name=self.of.unique(name + self.suffix, response.status),
            source_artifact=owner.path,
            when=when,
            response=Message(
                headers=response.headers,
                body=literal(body) if isinstance(body, str) else None,
                content=body if isinstance(body, bytes) else None,
            ),
            request=self.of.request.message(example),
            status=response.status,
            media_type=media.type if body is not None else "",
            declared=ContractPlace(
                response=response.key,
                media_type=media.key,
                example=example,
                is_on_request=is_on_request,
                fresh=partial(owner.fresh_body, response.key, media.key),
            ),
        )


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
