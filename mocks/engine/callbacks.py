"""Calls that follow the answer of an example, compiled (reference: control-plane 18.2, step 6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from mocks.engine.responses import Response, ResponseParts
from mocks.model.calls import CallbackRequest, MockAnswer
from mocks.templates.scope import AnswerTooLarge, Names, Scope
from mocks.templates.templates import TextTemplate
from surfaces.behaviors import Callback
from surfaces.model import Message

_MAX_BODY: Final = 2**20


class CompiledCallback:
    """A callback whose headers, body and delay are made as those of an answer."""

    __slots__ = ("_message", "_method", "_url")

    def __init__(self, rule: Callback, names: Names) -> None:
        """Compile; raise TemplateInvalid."""
        self._method = rule.method
        self._url = TextTemplate(rule.url, names)
        message = Message(headers=rule.headers, body=rule.body)
        parts = ResponseParts(
            message=message, status="200", media_type="", adapter="rest", delay=rule.delay
        )
        self._message = Response(parts, names)

    def render(self, scope: Scope) -> CallbackRequest:
        """Return the call to send; raise PlatformError."""
        url = self._url.render(scope).strip()
        made = self._message.answer(scope)
        if len(made.body) > _MAX_BODY:
            raise AnswerTooLarge("the body of a callback has more than 1 MiB")
        headers = {name.lower(): value for name, value in made.headers}
        if made.body and made.media_type:
            headers["content-type"] = made.media_type
        return CallbackRequest(self._method, url, headers, made.body, made.delay_ms)


def due_callbacks(
    callbacks: Sequence[CompiledCallback], scope: Scope, answer: MockAnswer
) -> tuple[Callable[[], CallbackRequest], ...]:
    """Return what makes each call; their templates see the answer as `response`."""
    scopes = [scope.with_state(scope.state) for _ in callbacks]
    for each in scopes:
        each.response = answer.body
    return tuple(partial(each.render, of) for each, of in zip(callbacks, scopes, strict=True))
