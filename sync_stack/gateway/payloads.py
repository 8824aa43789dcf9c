"""Check that a body is exactly one JSON object without duplicate keys, in bounded memory.

Ordinary bodies are decoded, first into a type that is `_USUAL_DEPTH` deep, and encoded again. If
that gives the body itself, as for senders that write without spaces, no key occurs twice. Otherwise
the colons are counted: no `:` of a text is escaped, so both forms have the same number unless a key
occurs twice. Bodies that would need much memory as Python values, and those with escaped colons,
are scanned token by token instead.

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
_USUAL_DEPTH: Final = 8  # shallower bodies need no depth check
MEMORY_FACTOR: Final = 4  # times the body limit: the memory of one parsed body
_VALUE_COST: Final = 110  # bytes of a small value in a list or map of Python
_WORST_COST: Final = 3 + _VALUE_COST // 2  # for each byte: no value is shorter than two
_IN_THREAD: Final = 2**20
_CHUNK: Final = 2**16
_BUCKETS: Final = 16
_TOKEN: Final = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)"([ \t\r\n]*:)?|[\[{\]}]', re.DOTALL)


class NotJson(ValueError):
    """The body is not exactly one JSON object; the message says why."""


class _Members(msgspec.Struct):
    """The members that the gateway uses, undecoded."""

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
    """Return the type of JSON objects of at most `depth` levels; it doubles with each level."""
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
    """Return the members of the object, or only those of `_Members` of a very large one.

    Raises NotJson. Large bodies are read on a thread.
    """
    if len(body) > _IN_THREAD:
        return await asyncio.to_thread(parse_payload, body, limit=limit)
    return parse_payload(body, limit=limit)


def parse_payload(body: bytes, *, limit: int) -> Mapping[str, Any]:
    escapes_colons = b"\\" in body and b"\\u003" in body  # the first test is far faster
    if escapes_colons or not _is_cheap(body, limit * MEMORY_FACTOR):
        return _scan(body, limit)
    try:
        value = _object(body)
    except msgspec.ValidationError:  # a number that Python cannot hold
        return _scan(body, limit)
    written = _encode.encode(value)
    if written != body and written.count(b":") != body.count(b":"):
        raise NotJson("an object has a duplicate key")
    return value


def _object(body: bytes) -> dict[str, object]:
    """Raises NotJson, msgspec.ValidationError."""
    try:
        usual: dict[str, object] = _decode_with(body, _decode_usual)
    except msgspec.ValidationError:  # deeper than usual, or no object
        value = _decode_with(body, _decode)
        if not isinstance(value, dict):
            raise NotJson("the body must be a JSON object") from None
        _refuse_deep_value(value)
        return value
    return usual


def _is_cheap(body: bytes, memory: int) -> bool:
    if len(body) * _WORST_COST <= memory:
        return True
    values = body.count(b",") + body.count(b":") + body.count(b"[") + body.count(b"{")
    return 3 * len(body) + _VALUE_COST * values <= memory


def _decode_with(body: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    """Raises NotJson, and msgspec.ValidationError for JSON of another type."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError as error:
        raise NotJson(str(error)[:200]) from None
    except UnicodeDecodeError as error:
        raise NotJson(f"the body is not valid UTF-8: {error.reason}") from None
    except RecursionError:
        raise NotJson(f"nested more than {MAX_DEPTH} levels deep") from None


def _refuse_deep_value(value: dict[str, object]) -> None:
    """Walk level by level; skip texts, which are most of the values."""
    maps: list[dict[str, object]] = [value]
    lists: list[list[object]] = []
    for _depth in range(MAX_DEPTH):
        inner = [each for one in maps for each in one.values() if type(each) is not str]
        inner += [each for one in lists for each in one if type(each) is not str]
        maps = [each for each in inner if type(each) is dict]
        lists = [each for each in inner if type(each) is list]
        if not maps and not lists:
            return
    raise NotJson(f"nested more than {MAX_DEPTH} levels deep")


def _scan(body: bytes, limit: int) -> Mapping[str, Any]:
    _refuse_other_encodings(body)
    _refuse_deep_and_double(body)
    try:
        members = _decode_with(body, _decode_members)
    except msgspec.ValidationError:
        raise NotJson("the body must be a JSON object") from None
    raw = {name: getattr(members, name) for name in _Members.__struct_fields__}
    return {
        name: _read_member(bytes(text), limit)
        for name, text in raw.items()
        if text is not msgspec.UNSET
    }


def _read_member(text: bytes, limit: int) -> Any:
    """Return the value of a member, or only True where decoding costs too much memory."""
    try:
        return _decode_with(text, _decode) if _is_cheap(text, limit) else True
    except msgspec.ValidationError:
        return True


def _refuse_other_encodings(body: bytes) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(body), _CHUNK):
            decoder.decode(body[start : start + _CHUNK])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise NotJson(f"the body is not valid UTF-8: {error.reason}") from None


def _refuse_deep_and_double(body: bytes) -> None:
    """Keep 8 bytes for each key, so that the check needs less memory than the body."""
    open_objects: list[array[int]] = []
    for match in _TOKEN.finditer(body):
        if match[2] is not None:
            if open_objects:
                open_objects[-1].append(hash(_unescape(match[1])))
        elif match[1] is None:
            _track_bracket(match[0], open_objects)


def _track_bracket(bracket: bytes, open_objects: list[array[int]]) -> None:
    if bracket in b"[{":
        open_objects.append(array("q"))
        if len(open_objects) > MAX_DEPTH:
            raise NotJson(f"nested more than {MAX_DEPTH} levels deep")
    elif open_objects and any(len(set(part)) != len(part) for part in _parts(open_objects.pop())):
        raise NotJson("an object has a duplicate key")


def _unescape(key: bytes) -> bytes:
    if b"\\" not in key:
        return key
    return str(_decode_with(b'"%b"' % key, _decode)).encode("utf-8", "surrogatepass")


def _parts(digests: array[int]) -> Iterator[list[int]]:
    if len(digests) < _CHUNK:
        yield list(digests)
        return
    for bucket in range(_BUCKETS):  # one list of all would be large
        yield [digest for digest in digests if digest % _BUCKETS == bucket]
