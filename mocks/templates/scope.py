"""What templates of one call see, and what they know before it (reference: control-plane 18.6)."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kernel.errors import PlatformError
from mocks.model.calls import MockRequest
from mocks.model.paths import MISSING, json_text

MAX_RENDERED: Final = 16 * 2**20  # characters of an answer
_BIG: Final = 64 * 2**10  # bytes of a request from which on objects in templates are counted
_LONG: Final = 1_000  # characters from which on texts are counted


class AnswerTooLarge(PlatformError):
    """An answer, or a record of state, that a request makes larger than allowed."""

    code = "payload_too_large"


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What templates know before a request: the roots `suite`, `operation` and `execution`.

    `counters` are the names of those that were met while compiling.
    """

    suite: Mapping[str, str]
    operation: Mapping[str, str]
    execution: Mapping[str, str]
    counters: set[str] = field(default_factory=set)


class Scope:
    """What templates of one call see. `response` is the body of the answer, once it is rendered."""

    __slots__ = (
        "_raw_text", "_response_text", "_response_value", "_room", "counters", "example", "request",
        "response", "rng", "state",
    )  # fmt: skip

    def __init__(
        self, request: MockRequest, state: Mapping[str, str], example: str, rng: random.Random
    ) -> None:
        self.request = request
        self.state = state
        self.example = example
        self.rng = rng
        self.response: bytes | None = None
        self.counters: Mapping[str, int] = {}
        self._raw_text: str | None = None
        self._response_text: str | None = None
        self._response_value: Any = MISSING
        self._room = MAX_RENDERED

    def with_state(self, state: Mapping[str, str]) -> Scope:
        """Return the same call as templates of a transition see it."""
        made = Scope(self.request, state, self.example, self.rng)
        made.response = self.response
        made.counters = self.counters
        return made

    @property
    def raw_text(self) -> str:
        if self._raw_text is None:
            self._raw_text = self.request.raw_body.decode(errors="replace")
        return self._raw_text

    @property
    def response_text(self) -> str:
        if self._response_text is None and self.response is not None:
            self._response_text = self.response.decode(errors="replace")
        return self._response_text or ""

    @property
    def response_value(self) -> Any:
        """Return the body of the answer: JSON when it parses, otherwise text."""
        if self._response_value is MISSING and self.response is not None:
            try:
                self._response_value = msgspec.json.decode(self.response)
            except (ValueError, RecursionError):
                self._response_value = self.response.decode(errors="replace")
        return self._response_value

    def text(self, value: Any) -> str:
        """Return a value as templates show it: null and what is missing are empty."""
        if isinstance(value, str):
            return value
        if value is MISSING or value is None:
            return ""
        made = json_text(value)
        if len(made) > _BIG:
            self._take(len(made))
        return made

    def count_value(self, value: Any) -> Any:
        """Count the size of a part of the answer and return it; raise AnswerTooLarge."""
        if isinstance(value, str):
            if len(value) > _LONG:
                self._take(len(value))
        elif isinstance(value, dict | list):
            size = len(self.request.raw_body)  # of this value, at most
            self._take(size if size <= _BIG else len(json_text(value)))
        return value

    def _take(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise AnswerTooLarge("the request makes the answer too large")


Text = Callable[[Scope], str]
Value = Callable[[Scope], Any]
