"""Responses of examples and static fallbacks, compiled (reference: control-plane 18.2, step 6)."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from kernel.errors import PlatformError
from mocks.model.calls import CallOutcome, MockAnswer, MockRequest
from mocks.negotiation.charsets import charset_of, recode
from mocks.templates.coercions import body_text
from mocks.templates.scope import AnswerTooLarge, Names, Scope, Value
from mocks.templates.templates import JSON, BodyTemplate, TextTemplate
from mocks.templates.values import compile_node, reads_state, varies
from surfaces.behaviors import Delay, MockFault
from surfaces.model import Adapter, Message
from surfaces.value_nodes import ValueNode

HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}", re.ASCII)
MAX_HEADER: Final = 16 * 2**10
MAX_HEADERS: Final = 256 * 2**10  # together
_LARGEST_GRPC: Final = 16
_LOWEST, _HIGHEST = 100, 599
_OK, _ACCEPTED = 200, 202
_GRPC_STATUSES: Final[Mapping[int, int]] = {
    0: 200, 1: 499, 3: 400, 9: 400, 11: 400, 5: 404, 6: 409, 10: 409, 7: 403, 8: 429, 12: 501,
    14: 503, 4: 504, 16: 401,
}  # fmt: skip
_CONTROLS: Final = dict.fromkeys((*range(9), *range(10, 32), 127))
_CONTENT_TYPE: Final = "content-type"


class StatusInvalid(PlatformError):
    """A template of a status that renders to none."""

    code = "mock_metadata_invalid"


def http_status(code: int) -> int:
    """Return the HTTP status that stands for a status code of gRPC."""
    return _GRPC_STATUSES.get(code, 500)


def header_value(text: str) -> str:
    """Return a text as a header may hold it: without CR, LF and other control characters.

    Raise AnswerTooLarge.
    """
    if len(text) > MAX_HEADER:
        raise AnswerTooLarge(f"a header of the answer has more than {MAX_HEADER:,} characters")
    return text if text.isprintable() else text.translate(_CONTROLS)


def media_type_of(body: bytes) -> str:
    """Return the media type of a body whose example names none: of JSON, XML or text."""
    start = body.lstrip()[:1]
    if not start:
        return ""
    if start == b"<":
        return "application/xml"
    try:
        msgspec.json.decode(body)
    except (ValueError, RecursionError):
        is_text = b"\0" not in body and not body.decode(errors="replace").count("\ufffd")
        return "text/plain; charset=utf-8" if is_text else "application/octet-stream"
    return JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseParts:
    """What a response is compiled from; `outcome` and `fallback` are those of its answers."""

    message: Message
    status: str
    media_type: str
    adapter: Adapter
    delay: Delay = field(default_factory=Delay)
    fault: MockFault | None = None
    example: str = ""
    outcome: CallOutcome = CallOutcome.EXAMPLE
    fallback: str = ""


class _NodeText:
    """The text of a schema node, with the face of a template."""

    __slots__ = ("_make", "constant")

    def __init__(self, node: ValueNode, names: Names, pointer: str) -> None:
        self._make: Value = compile_node(node, names, pointer)
        self.constant: str | None = None
        if not varies(node):
            self.constant = body_text(self._make(_NO_CALL))

    def render(self, scope: Scope) -> str:
        return body_text(self._make(scope))


class _NodeBody:
    """The body of a schema node, with the face of a template."""

    __slots__ = ("_text", "constant", "media_type")

    def __init__(self, node: ValueNode, names: Names) -> None:
        self.media_type = JSON if node.type in ("object", "array") else ""
        self._text = _NodeText(node, names, "")
        text = self._text.constant
        self.constant = None if text is None else text.encode(errors="replace")

    def render(self, scope: Scope) -> bytes:
        return self._text.render(scope).encode(errors="replace")


class Response:
    """Makes the answers of an example or a static fallback.

    `constant` is the answer if it is always the same: shared, not to be changed. `media_type` is
    "" if a request decides it. `counters` are those that its templates count.
    """

    __slots__ = (
        "_body", "_body_type", "_charset", "_fixed_headers", "_fixed_status", "_headers",
        "_media_type", "_parts", "_status", "constant", "counters", "delay", "fault", "media_type",
        "reads_state",
    )  # fmt: skip

    def __init__(self, parts: ResponseParts, names: Names) -> None:
        """Compile; raise TemplateInvalid."""
        names = replace(names, counters=set())
        self._parts = parts
        self._headers, media_type = _headers(parts, names)
        self._media_type = TextTemplate(media_type, names)
        self._body = _body(parts.message, names)
        self._status = TextTemplate(parts.status, names)
        self._fixed_status = (
            _status(self._status.constant) if self._status.constant is not None else None
        )
        self._body_type = self._body.media_type
        is_text = parts.message.content is None
        self._charset = charset_of(self._media_type.constant or "") if is_text else ""
        self._fixed_headers: tuple[tuple[str, str], ...] | None = None
        if all(each.constant is not None for _, each in self._headers):
            self._fixed_headers = self._render_headers(_NO_CALL)
        fixed = (
            self._fixed_status, self._fixed_headers, self._media_type.constant, self._body.constant,
        )  # fmt: skip
        constant = None if None in fixed else self.answer(_NO_CALL)
        known = constant.media_type if constant else self._media_type.constant
        self.constant = constant if parts.delay.is_fixed and not parts.fault else None
        self.fault, self.delay = parts.fault, parts.delay
        self.media_type = known or self._body_type
        self.reads_state = _reads_state(parts)
        self.counters = frozenset(names.counters)

    def answer(self, scope: Scope) -> MockAnswer:
        """Return a new answer; raise AnswerTooLarge, NotOfType or StatusInvalid.

        Afterwards `scope.response` is its body.
        """
        parts = self._parts
        constant = self._body.constant
        body = self._body.render(scope) if constant is None else constant
        status = self._fixed_status
        if status is None:
            status = _status(self._status.render(scope))
        grpc_status = None
        if parts.adapter == "grpc" and status <= _LARGEST_GRPC:
            status, grpc_status = http_status(status), status
        elif parts.adapter == "async" and not body and status == _OK:
            status = _ACCEPTED
        media_type = self._media_type.constant
        if media_type is None:
            media_type = header_value(self._media_type.render(scope))
        headers = self._fixed_headers
        if headers is None:
            headers = self._render_headers(scope)
        scope.response = body  # for keys and `set`; headers do not see it
        return MockAnswer(
            status=status,
            media_type=media_type or self._body_type or media_type_of(body),
            headers=headers,
            body=recode(body, self._charset) if self._charset else body,
            outcome=parts.outcome,
            example=parts.example,
            fallback=parts.fallback,
            delay_ms=parts.delay.draw_ms(scope.rng),
            fault=parts.fault,
            grpc_status=grpc_status,
        )

    def encode(self, body: str | bytes) -> bytes:
        """Return another body as this response sends it, in its charset."""
        if isinstance(body, bytes):
            return body
        return body.encode(self._charset or "utf-8", errors="replace")

    def _render_headers(self, scope: Scope) -> tuple[tuple[str, str], ...]:
        headers, room = [], MAX_HEADERS
        for name, each in self._headers:
            value = header_value(each.render(scope))
            room -= len(name) + len(value)
            if room < 0:
                raise AnswerTooLarge(
                    f"the headers of the answer have more than {MAX_HEADERS:,} characters"
                )
            headers.append((name, value))
        return tuple(headers)


_NO_CALL: Final = Scope(MockRequest("", ""), {}, "", random.Random())  # noqa: S311 - never drawn from
_Header = TextTemplate | _NodeText


def _headers(parts: ResponseParts, names: Names) -> tuple[list[tuple[str, _Header]], str]:
    """Return the headers with a valid name, and the media type that they or the parts say."""
    message, media_type = parts.message, parts.media_type
    found: dict[str, tuple[str, _Header]] = {}
    for name, text in message.headers.items():
        if name.lower() == _CONTENT_TYPE:
            media_type = media_type or text
        else:
            found[name.lower()] = (name, TextTemplate(text, names))
    nodes = message.headers_node.properties if message.headers_node else {}
    for name, node in nodes.items():
        made = _NodeText(node, names, f"/{name}")
        if name.lower() == _CONTENT_TYPE:
            media_type = media_type or made.constant or ""
        else:
            found.setdefault(name.lower(), (name, made))
    return [each for each in found.values() if HEADER_NAME.fullmatch(each[0])], media_type


class _Content:
    """A body of bytes, with the face of a template."""

    __slots__ = ("constant", "media_type")

    def __init__(self, content: bytes) -> None:
        self.constant = content
        self.media_type = ""

    def render(self, _scope: Scope) -> bytes:
        return self.constant


def _body(message: Message, names: Names) -> BodyTemplate | _NodeBody | _Content:
    if message.content is not None:
        return _Content(message.content)
    if message.body is None and message.body_node is not None:
        return _NodeBody(message.body_node, names)
    return BodyTemplate(message.body or "", names)


def _status(text: str) -> int:
    """Return a status; raise StatusInvalid for a text that is none."""
    digits = text.strip()
    if digits.isascii() and digits.isdecimal() and len(digits) <= len("599"):
        status = int(digits)
        if _LOWEST <= status <= _HIGHEST or status <= _LARGEST_GRPC:
            return status
    raise StatusInvalid("the template of the status does not give a status")


def _reads_state(parts: ResponseParts) -> bool:
    """Return whether the answer may depend on the state; True when in doubt."""
    message = parts.message
    texts = (parts.status, parts.media_type, message.body or "", *message.headers.values())
    nodes = [each for each in (message.headers_node, message.body_node) if each]
    return any("{{" in text and "state" in text for text in texts) or any(map(reads_state, nodes))
