"""Whether a body is exactly one JSON object, in bounded memory and at speed.

Ordinary bodies are decoded, into a type that is `_USUAL_DEPTH` deep or else freely, and written
again. Where that gives the body itself, as for a sender
that writes without spaces, no key occurs twice; otherwise, as no `:` of a text is escaped, both
forms hold equally many unless one does. Bodies that would need much memory as Python values, and
those with escaped colons, are scanned token by token instead.

(reference: sync-stack 2.2)
"""

from __future__ import annotations

import asyncio
import codecs
import re
from array import array
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

MAX_DEPTH: Final = 64
_USUAL_DEPTH: Final = 8  # what is not deeper needs no walk over its values
MEMORY_FACTOR: Final = 4  # of the body limit; what one request may cost on top of its body
_VALUE_COST: Final = 110  # bytes of a small value in a list or map of Python
_WORST_COST: Final = 3 + _VALUE_COST // 2  # of a byte: no value is shorter than two
_IN_THREAD: Final = 2**20
_CHUNK: Final = 2**16
_BUCKETS: Final = 16
_TOKEN: Final = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)"([ \t\r\n]*:)?|[\[{\]}]', re.DOTALL)


class NotJson(ValueError):
    """The body is not exactly one JSON object; the message says why."""


class _Members(msgspec.Struct):
    """The members that the gateway ever looks at, as they are written."""

    ref: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    repository: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    action: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    pull_request: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    project: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    object_attributes: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    push: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    pullrequest: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    changes: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    pullRequest: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # noqa: N815 - the wire's name


def _object_of_depth(depth: int) -> Any:
    """The type of JSON objects that are at most so deep; its size doubles with each level."""
    scalar: Any = str | int | float | bool | None
    value = scalar
    for _ in range(depth - 1):
        value = scalar | list[value] | dict[str, value]  # type: ignore[valid-type]
    return dict[str, value]  # type: ignore[valid-type]


_decode_usual: Final = msgspec.json.Decoder(_object_of_depth(_USUAL_DEPTH))
_decode_members: Final = msgspec.json.Decoder(_Members)
_decode: Final = msgspec.json.Decoder()
_encode: Final = msgspec.json.Encoder()


async def read_payload(body: bytes, *, limit: int) -> Mapping[str, Any]:
    """The object's members, or, of a very detailed one, those of `_Members` only.

    Raises NotJson. Large bodies are read on a thread.
    """
    if len(body) > _IN_THREAD:
        return await asyncio.to_thread(parse_payload, body, limit=limit)
    return parse_payload(body, limit=limit)


def parse_payload(body: bytes, *, limit: int) -> Mapping[str, Any]:
    if _may_escape_colons(body) or not _is_cheap(body, limit * MEMORY_FACTOR):
        return _scanned(body, limit)
    try:
        value = _object(body)
    except msgspec.ValidationError:  # a number that Python cannot hold
        return _scanned(body, limit)
    written = _encode.encode(value)
    if written != body and written.count(b":") != body.count(b":"):
        raise NotJson("a key occurs twice in one object")
    return value


def _object(body: bytes) -> dict[str, Any]:
    """Raises NotJson, msgspec.ValidationError."""
    try:
        usual: dict[str, Any] = _decoded(body, _decode_usual)
    except msgspec.ValidationError:  # deeper than usual, or no object
        value = _decoded(body, _decode)
        if not isinstance(value, dict):
            raise NotJson("the body must be a JSON object") from None
        _refuse_deep_value(value)
        return value
    return usual


def _may_escape_colons(body: bytes) -> bool:
    """One character is found far faster than five, and most bodies escape nothing."""
    return b"\\" in body and b"\\u003" in body


def _is_cheap(body: bytes, memory: int) -> bool:
    if len(body) * _WORST_COST <= memory:
        return True
    values = body.count(b",") + body.count(b":") + body.count(b"[") + body.count(b"{")
    return 3 * len(body) + _VALUE_COST * values <= memory


def _decoded(body: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    """Raises NotJson; msgspec.ValidationError for what is JSON, but not of the decoder's type."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError as error:
        raise NotJson(str(error)[:200]) from None
    except UnicodeDecodeError as error:
        raise NotJson(f"not UTF-8: {error.reason}") from None
    except RecursionError:
        raise NotJson(f"nested more than {MAX_DEPTH} deep") from None


def _refuse_deep_value(value: dict[str, Any]) -> None:
    """Level by level; texts, which most values are, are left at once."""
    maps: list[dict[str, Any]] = [value]
    lists: list[list[Any]] = []
    for _depth in range(MAX_DEPTH):
        inner = [each for one in maps for each in one.values() if type(each) is not str]
        inner += [each for one in lists for each in one if type(each) is not str]
        maps = [each for each in inner if type(each) is dict]
        lists = [each for each in inner if type(each) is list]
        if not maps and not lists:
            return
    raise NotJson(f"nested more than {MAX_DEPTH} deep")


def _scanned(body: bytes, limit: int) -> Mapping[str, Any]:
    _refuse_other_encodings(body)
    _refuse_deep_and_double(body)
    try:
        members = _decoded(body, _decode_members)
    except msgspec.ValidationError:
        raise NotJson("the body must be a JSON object") from None
    raw = {name: getattr(members, name) for name in _Members.__struct_fields__}
    return {
        name: _read_member(bytes(text), limit)
        for name, text in raw.items()
        if text is not msgspec.UNSET
    }


def _read_member(text: bytes, limit: int) -> Any:
    """Its value, or, where that would cost much, only that it is there."""
    try:
        return _decoded(text, _decode) if _is_cheap(text, limit) else True
    except msgspec.ValidationError:
        return True


def _refuse_other_encodings(body: bytes) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(body), _CHUNK):
            decoder.decode(body[start : start + _CHUNK])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise NotJson(f"not UTF-8: {error.reason}") from None


def _refuse_deep_and_double(body: bytes) -> None:
    """Keys are kept as 8 bytes each, so that the check costs less than the body."""
    open_objects: list[array[int]] = []
    for match in _TOKEN.finditer(body):
        if match[2] is not None:
            if open_objects:
                open_objects[-1].append(hash(_unescaped(match[1])))
        elif match[1] is None:
            _step(match[0], open_objects)


def _step(bracket: bytes, open_objects: list[array[int]]) -> None:
    if bracket in b"[{":
        open_objects.append(array("q"))
        if len(open_objects) > MAX_DEPTH:
            raise NotJson(f"nested more than {MAX_DEPTH} deep")
    elif open_objects and any(_has_double(part) for part in _parts(open_objects.pop())):
        raise NotJson("a key occurs twice in one object")


def _unescaped(key: bytes) -> bytes:
    if b"\\" not in key:
        return key
    text = _decoded(b'"%b"' % key, _decode)
    return str(text).encode("utf-8", "surrogatepass")


def _parts(digests: array[int]) -> Iterator[list[int]]:
    if len(digests) < _CHUNK:
        yield list(digests)
        return
    for bucket in range(_BUCKETS):  # a list of all of them at once would be large
        yield [digest for digest in digests if digest % _BUCKETS == bucket]


def _has_double(digests: list[int]) -> bool:
    return len(set(digests)) != len(digests)
