"""Bodies of the messages of a contract: of an example, or a sample of the schema.

A body is a text or, of what is none, bytes. (reference: control-plane 6.2)
"""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import dataclass
from random import Random
from typing import Any, Final
from urllib.parse import quote

from surfaces.contract_examples.schema_samples import SchemaSampler
from surfaces.contract_examples.text_examples import intended_value
from surfaces.contract_examples.xml_samples import xml_text
from surfaces.json_documents import JsonDocuments, Located, decode_base64
from surfaces.schemas import as_text, is_json

MAX_BODY: Final = 2 * 2**20  # characters or bytes
_MAX_TYPES: Final = 20  # of a message
Body = str | bytes
_JSON: Final = "application/json"
_BINARY: Final = ("image/", "audio/", "video/", "font/")
_BINARY_TYPES: Final = frozenset(
    f"application/{each}" for each in ("octet-stream", "pdf", "zip", "gzip", "x-gzip")
)
_OF_RANGES: Final = {"image": "image/png", "text": "text/plain", "application": _JSON,
                     "audio": "audio/mpeg", "video": "video/mp4"}  # fmt: skip
# the least that programs take for a picture or document of one pixel or page
_LEAST: Final = {
    "image/png": b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5E"
        "rkJggg=="
    ),
    "image/gif": b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"),
    "image/jpeg": bytes.fromhex(
        f"ffd8 ffdb004300{'01' * 64} ffc0000b080001000101011100 ffc4001400 01{'00' * 16}"
        f"ffc4001410 01{'00' * 16} ffda0008010100003f00 3f ffd9"
    ),
    "image/webp": b64decode("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="),
    "application/pdf": b"%PDF-1.4\n1 0 obj<</Pages 2 0 R>>endobj\n2 0 obj<</Kids[3 0 R]/Count 1>>"
    b"endobj\n3 0 obj<</Parent 2 0 R>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n",
    "application/zip": b"PK\x05\x06" + bytes(18),
}
_OTHERS: Final = bytes(range(0xF0, 0x100))


@dataclass(frozen=True, slots=True)
class Media:
    """One kind of content of a message: its key, which may be a range, and a type for it."""

    key: str
    type: str
    at: Located

    @property
    def schema(self) -> Located:
        return self.at.get("schema")


def media_of(message: Located) -> list[Media]:
    """Return what a message may hold, JSON first, ranges last; [] for one without content."""

    def rank(media: Media) -> int:
        return 0 if is_json(media.key) else 2 if "*" in media.key else 1

    content = message.members("content")
    listed = [media_at(message, key) for key in list(content)[:_MAX_TYPES]]
    return sorted(listed, key=rank)


def media_at(message: Located, key: str) -> Media:
    """Return the content of this key."""
    media = message.get("content", key)
    kind, _, below = key.partition("/")
    if "*" not in key:
        return Media(key, key, media)
    if kind == "*":
        schema = media.get("schema")
        is_text = schema.get("type").value == "string"
        is_binary = schema.get("format").value == "binary"
        plain = "text/plain" if is_text else _JSON
        return Media(key, "application/octet-stream" if is_binary else plain, media)
    if below.startswith("*+"):
        return Media(key, f"{kind}/{below[2:]}", media)
    return Media(key, _OF_RANGES.get(kind, "application/octet-stream"), media)


def example_body(documents: JsonDocuments, media: Media, example: Located) -> Body | None:
    """Return the body that an Example Object says, None for what is not there or too large."""
    if not isinstance(example.value, dict):
        return None
    if "value" in example.value:
        return value_body(documents, media, example.value["value"])
    found = documents.external_value(example)
    if found is None or len(found) > MAX_BODY:
        return None
    return text_or_bytes(found)


def value_body(documents: JsonDocuments, media: Media, value: Any) -> Body | None:
    """Return the body of a value that an example gives, None if it is too large."""
    if is_json(media.type):
        value = intended_value(documents, value, media.schema)
    elif isinstance(value, str) and (found := _bytes_of(documents, media, value)) is not None:
        return found if len(found) <= MAX_BODY else None
    body = _encode(documents, media, value)
    return body if len(body) <= MAX_BODY else None


def sample_body(documents: JsonDocuments, media: Media, randomness: Random | None = None) -> Body:
    """Return a sample of the body: always the same one, or one that `randomness` decides."""
    schema = media.schema
    if not isinstance(schema.value, dict):
        if _is_binary(documents, media):
            return _least_bytes(media)
        return "{}" if is_json(media.type) and isinstance(media.at.value, dict) else ""
    if _is_binary(documents, media) and not is_json(media.type):
        sample = SchemaSampler(documents).value(schema)
        found = _bytes_of(documents, media, sample) if isinstance(sample, str) else None
        return _least_bytes(media) if found is None or sample in _MADE else found
    key = (schema.file, str(schema.value.get("$ref", "")), media.type)
    if randomness is None and key in documents.samples:
        return documents.samples[key]
    value = SchemaSampler(documents, randomness=randomness).value(schema)
    text = _encode(documents, media, value)
    if randomness is None and set(schema.value) == {"$ref"}:
        documents.keep_sample(key, text)
    return text


def text_or_bytes(content: bytes) -> Body:
    """Return the text of bytes, or the bytes where they are none."""
    try:
        return content.decode() if b"\0" not in content else content
    except UnicodeDecodeError:
        return content


_MADE: Final = ("string", "cGFydGl0YQ==")  # texts that no contract says


def _least_bytes(media: Media) -> bytes:
    return _LEAST.get(media.type.partition(";")[0].strip().lower(), _OTHERS)


def _is_binary(documents: JsonDocuments, media: Media) -> bool:
    """Return whether a body is bytes: by its type, or by what the schema says of a string."""
    kind = media.type.partition(";")[0].strip().lower()
    if kind in _BINARY_TYPES or (kind.startswith(_BINARY) and not kind.endswith("+xml")):
        return True
    schema = documents.resolve(media.schema)
    return bool(schema.get("format").value == "binary") or _isdecode_base64(schema)


def _isdecode_base64(schema: Located) -> bool:
    return bool(schema.get("contentEncoding").value == "base64")


def _bytes_of(documents: JsonDocuments, media: Media, text: str) -> bytes | None:
    """Return the bytes that a text stands for in base64, None where it stands for itself."""
    if not _is_binary(documents, media):
        return None
    kind = media.type.partition(";")[0].strip().lower()
    is_said = _isdecode_base64(documents.resolve(media.schema))
    if is_said or (kind in _LEAST or kind.startswith(_BINARY)):
        found = decode_base64(text.encode(errors="replace"))
        if found:
            return found
    return None


def _encode(documents: JsonDocuments, media: Media, value: Any) -> str:
    """Return a value as the text of a body."""
    kind = media.type.lower()
    if isinstance(value, str) and not is_json(kind):
        return value
    if "xml" in kind:
        return xml_text(documents, value, media.schema)
    if "form-urlencoded" in kind and isinstance(value, dict):
        return "&".join(f"{quote(key)}={quote(as_text(each))}" for key, each in value.items())
    is_line = any(each in kind for each in ("event-stream", "ndjson", "jsonl"))
    text = json.dumps(value, indent=None if is_line else 2, ensure_ascii=False)
    return (f"data: {text}\n\n" if "event-stream" in kind else f"{text}\n") if is_line else text
