"""Examples of JSON that are written as texts, as many converters of contracts leave them.

Where the schema wants an object or array, and the text is the JSON of one, that value is meant.
(reference: control-plane 6.2)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from readers import Unreadable
from readers.json import escape_pointer, read_json
from surfaces.contract_examples.flat_schemas import Flat, flatten_schemas
from surfaces.contract_examples.schema_checks import problems
from surfaces.json_documents import MAX_REFERENCES, JsonDocuments, Located
from surfaces.schemas import is_json

MAX_TEXT: Final = 2 * 2**20  # bytes
MAX_EXAMPLES: Final = 50  # of a message, that are looked at
_MAX_DEPTH: Final = 4  # of oneOf and anyOf in one another
_CONTAINERS: Final = frozenset(("object", "array"))


def intended_value(documents: JsonDocuments, value: Any, schema: Located) -> Any:
    """Return the value that a text stands for if its schema admits no text, else the value."""
    is_text = isinstance(value, str) and wants_container(documents, schema)
    return container_of(value) if is_text else value


def container_of(value: Any) -> Any:
    """Return the object or array that a text is the JSON of, any other value as it is."""
    if not isinstance(value, str):
        return value
    try:
        return read_container(value)
    except Unreadable:
        return value


def read_container(text: str) -> Any:
    """Return the object or array that a text is the JSON of; raise Unreadable for any other."""
    found = read_json(text.encode(errors="surrogatepass"), max_bytes=MAX_TEXT)
    if not isinstance(found, dict | list):
        raise Unreadable("it is neither an object nor an array")
    return found


def wants_container(documents: JsonDocuments, schema: Located, depth: int = 0) -> bool:
    """Return whether a schema admits objects or arrays and no text."""
    if not isinstance(schema.value, dict):
        return False
    flat = flatten_schemas(documents, [schema])
    if is_container(flat):
        return True
    if flat.types is not None or depth >= _MAX_DEPTH:
        return False
    return any(
        all(wants_container(documents, each, depth + 1) for each in group) for group in flat.groups
    )


def is_container(flat: Flat) -> bool:
    """Return whether a flat schema names an object or array and no text, or has its keywords."""
    if flat.types is None:
        return flat.type in _CONTAINERS
    return "string" not in flat.types and not _CONTAINERS.isdisjoint(flat.types)


@dataclass(frozen=True, slots=True)
class UnreadText:
    """An example that is not answered as its author means it: where it is, and why."""

    file: str
    pointer: str
    reason: str


@dataclass(frozen=True, slots=True)
class PointedValue:
    """A value of a document with its JSON pointer."""

    at: Located
    pointer: str = ""

    def get(self, name: str) -> PointedValue:
        return PointedValue(self.at.get(name), f"{self.pointer}/{escape_pointer(name)}")

    def below(self, name: str) -> Iterator[tuple[str, PointedValue]]:
        listed = self.get(name)
        for key in listed.at.value if isinstance(listed.at.value, dict) else ():
            yield key, listed.get(key)

    def entries(self, name: str) -> Iterator[PointedValue]:
        for number, each in enumerate(self.at.items(name)):
            yield PointedValue(Located(each, self.at.file), f"{self.pointer}/{name}/{number}")

    def resolve(self, documents: JsonDocuments) -> PointedValue:
        """Return the place that a `$ref` leads to."""
        place = self
        for _ in range(MAX_REFERENCES):
            reference = place.at.get("$ref").value
            if not isinstance(reference, str):
                break
            found = documents.target(reference, place.at.file)
            place = PointedValue(found, reference.partition("#")[2])
        return place


def unread_texts(
    documents: JsonDocuments, operation: Located, pointer: str
) -> Iterator[UnreadText]:
    """Yield the texts among the JSON examples of an operation that stay texts.

    `pointer` is that of the operation in its document.
    """
    place = PointedValue(operation, pointer)
    responses = (each for _, each in place.below("responses"))
    for message in (place.get("requestBody"), *responses):
        for kind, media in message.resolve(documents).below("content"):
            if is_json(kind):
                yield from _unread_texts_of_media(documents, media)


def unread_values(
    documents: JsonDocuments, operation: Located, pointer: str
) -> Iterator[UnreadText]:
    """Yield the examples of answers whose `externalValue` leads to nothing that is here."""
    for _, message in PointedValue(operation, pointer).below("responses"):
        for _, media in message.resolve(documents).below("content"):
            for _, each in islice(media.below("examples"), MAX_EXAMPLES):
                example = each.resolve(documents)
                address = example.at.get("externalValue").value
                if isinstance(address, str) and documents.external_value(example.at) is None:
                    is_url = address[:8].lower().startswith(("http://", "https://"))
                    reason = "is not fetched" if is_url else "is not a file of the suite"
                    shown = f'"{address[:200]}" {reason}'
                    yield UnreadText(example.at.file, example.pointer, shown)


def broken_examples(
    documents: JsonDocuments, item: Located, method: str, pointer: str
) -> Iterator[UnreadText]:
    """Yield the examples of parameters, bodies and answers that break their schema.

    `pointer` is that of the path item. Texts that stand for a value are those of `unread_texts`.
    """
    path = PointedValue(item, pointer)
    operation = path.get(method)
    parameters = [*path.entries("parameters"), *operation.entries("parameters")]
    messages = (operation.get("requestBody"), *(each for _, each in operation.below("responses")))
    medias = [
        media
        for message in messages
        for kind, media in message.resolve(documents).below("content")
        if is_json(kind)
    ]
    for owner in (*(each.resolve(documents) for each in parameters), *medias):
        for example in _examples(documents, owner):
            yield from broken_example(documents, example, owner.at.get("schema"))


def broken_example(
    documents: JsonDocuments, example: PointedValue, schema: Located
) -> Iterator[UnreadText]:
    """Yield the first thing that breaks the schema, if there is any."""
    value = intended_value(documents, example.at.value, schema)
    if not isinstance(value, str) or not wants_container(documents, schema):
        for found in islice(problems(documents, value, schema), 1):
            yield UnreadText(example.at.file, f"{example.pointer}{found.pointer}", found.reason)


def _examples(documents: JsonDocuments, owner: PointedValue) -> Iterator[PointedValue]:
    """Yield the values of a media type or parameter that are written in the document."""
    named = (each.resolve(documents) for _, each in islice(owner.below("examples"), MAX_EXAMPLES))
    places = [(owner, "example"), *((each, "value") for each in named)]
    for place, key in places:
        if isinstance(place.at.value, dict) and key in place.at.value:
            yield place.get(key)


def _unread_texts_of_media(documents: JsonDocuments, media: PointedValue) -> Iterator[UnreadText]:
    for example in _examples(documents, media):
        text = example.at.value
        if not isinstance(text, str) or not wants_container(documents, media.at.get("schema")):
            continue
        try:
            read_container(text)
        except Unreadable as error:
            reason = error.reason
            if error.line:
                reason += f" (line {error.line}, column {error.column} of the text)"
            yield UnreadText(example.at.file, example.pointer, reason)
