"""Documents of api/ as plain values, decoded when an example is asked for.

A contract of thousands of operations is decoded once for many of them, and forgotten when others
were used since: its text is kept anyway, its values would be many times as large.
"""

from __future__ import annotations

import posixpath
import threading
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, unquote_to_bytes
from weakref import ref

import msgspec

from readers import Unreadable
from readers.json import unescape_pointer
from surfaces.trees import read_tree, without_comments

MAX_REFERENCES: Final = 32  # that lead to one another
MAX_SCHEMAS: Final = 300_000  # that are compiled of a suite
MAX_DECODED: Final = 32 * 2**20  # characters of the documents whose values are kept
_SAMPLES: Final = 300  # that are kept of a suite
_MAX_SAMPLE: Final = 32 * 2**10  # characters
_MAX_REFERENCE: Final = 1_000  # characters
_DOCUMENTS: Final = (".yaml", ".yml", ".json")
_decoder: Final = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True)
class Located:
    """A value of a document, with the file that its references start from."""

    value: Any
    file: str

    def get(self, *names: str) -> Located:
        """Return a member below, None where there is none."""
        value = self.value
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return Located(value, self.file)

    def members(self, name: str) -> dict[str, object]:
        """Return a member that should be a mapping, {} otherwise."""
        found = self.value.get(name) if isinstance(self.value, dict) else None
        return found if isinstance(found, dict) else {}

    def items(self, name: str) -> list[Any]:
        found = self.value.get(name) if isinstance(self.value, dict) else None
        return found if isinstance(found, list) else []


class JsonDocuments:
    """The documents of a suite; thread-safe."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = files
        self.encoded: dict[str, bytes] = {}  # of YAML, since JSON is read many times as fast
        self.decoded: dict[str, object] = {}
        self.samples: dict[tuple[str, str, str], str] = {}  # by file, reference and media type
        self.schemas: dict[tuple[str, str, str], Any] = {}  # by file, $ref, use
        self.schema_budget = MAX_SCHEMAS

    def value(self, path: str) -> Any:
        """Return a document, None if there is none or it cannot be read."""
        found = self.decoded.get(path, _ABSENT)
        if found is _ABSENT:
            found = self.decoded[path] = self._read(path)
        _recent.note(self, path)
        return found

    def _read(self, path: str) -> Any:
        if path in self.encoded:
            return _decoder.decode(self.encoded[path])
        if not path.lower().endswith(_DOCUMENTS):
            return None
        text = self.files.get(path, b"").decode(errors="replace")
        try:
            if path.lower().endswith(".json"):
                return _decoder.decode(without_comments(text))
            return read_tree(text, path).plain()
        except (Unreadable, ValueError, RecursionError):
            return None

    def keep_sample(self, key: tuple[str, str, str], text: str) -> None:
        """Keep a sample that many operations share, such as that of an error."""
        if len(text) <= _MAX_SAMPLE and len(self.samples) < _SAMPLES:
            self.samples[key] = text

    def resolve(self, place: Located) -> Located:
        """Follow `$ref`; one to a URL, or to nothing, leads to None."""
        for _ in range(MAX_REFERENCES):
            reference = place.value.get("$ref") if isinstance(place.value, dict) else None
            if not isinstance(reference, str) or len(reference) > _MAX_REFERENCE:
                return place
            place = self.target(reference, place.file)
        return Located(None, place.file)

    def external_value(self, example: Located) -> bytes | None:
        """Return what `externalValue` leads to: a data URL, or a file of the suite; else None.

        Nothing is fetched.
        """
        address = example.get("externalValue").value
        if not isinstance(address, str):
            return None
        if address[:5].lower() == "data:":
            head, _, data = address[5:].partition(",")
            content = unquote_to_bytes(data)
            return decode_base64(content) if head.lower().endswith(";base64") else content
        path = posixpath.join(posixpath.dirname(example.file), unquote(address.partition("#")[0]))
        return self.files.get(posixpath.normpath(path))

    def target(self, reference: str, file: str) -> Located:
        """Return what one reference leads to, None for a URL or nothing."""
        named, _, pointer = reference.partition("#")
        if "://" in named:
            return Located(None, file)
        if named:
            file = posixpath.normpath(posixpath.join(posixpath.dirname(file), unquote(named)))
        value = self.value(file)
        for part in pointer.split("/")[1:]:
            value = _child(value, unescape_pointer(unquote(part)))
        return Located(value, file)


def decode_base64(text: bytes) -> bytes | None:
    """Return the bytes of a text in base64, None for another text."""
    try:
        return b64decode(b"".join(text.split()), validate=True)
    except ValueError:
        return None


def _child(value: Any, key: str) -> Any:
    if isinstance(value, list):
        return value[int(key)] if key.isdecimal() and int(key) < len(value) else None
    return value.get(key) if isinstance(value, dict) else None


class _Recent:
    """Which documents were used last; those used longest ago lose their values."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._used: OrderedDict[tuple[int, str], tuple[ref[JsonDocuments], int]] = OrderedDict()
        self._budget = MAX_DECODED

    def note(self, documents: JsonDocuments, path: str) -> None:
        key = (id(documents), path)
        with self._lock:
            found = self._used.pop(key, None)
            if found is None or found[0]() is not documents:
                size = len(documents.encoded.get(path) or documents.files.get(path, b""))
                self._budget -= size - (found[1] if found else 0)
                found = (ref(documents), size)
            self._used[key] = found
            while self._budget < 0 and len(self._used) > 1:
                self._forget_oldest()

    def _forget_oldest(self) -> None:
        (_, path), (documents, size) = self._used.popitem(last=False)
        self._budget += size
        if (owner := documents()) is not None:
            owner.decoded.pop(path, None)


_ABSENT: Final = object()
_recent: Final = _Recent()
