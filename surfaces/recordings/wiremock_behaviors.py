"""Faults, delays and webhooks of WireMock's mappings, as responses of example files have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from readers import Unreadable
from surfaces.behaviors import MAX_DELAY_MS, read_callbacks, read_delay, read_fault
from surfaces.recordings.calls import text_at
from surfaces.recordings.mock_files import Document
from surfaces.recordings.stubs import body_value, mapping_at
from surfaces.recordings.wiremock_requests import Say
from surfaces.trees import tree_of

OF_RESPONSE: Final = frozenset(
    {"fault", "fixedDelayMilliseconds", "delayDistribution", "chunkedDribbleDelay"}
)
WEBHOOKS: Final = ("serveEventListeners", "postServeActions")  # of a mapping
_OF_WEBHOOK: Final = frozenset({"method", "url", "headers", "body", "delay"})
_FAULTS: Final = {
    "CONNECTION_RESET_BY_PEER": "reset",
    "EMPTY_RESPONSE": "empty",
    "MALFORMED_RESPONSE_CHUNK": "half",
    "RANDOM_DATA_THEN_CLOSE": "garbage",
}


def behavior_of(response: Mapping[str, Any], say: Say) -> Document:
    """Return fault and delay of a response; what has no equal is said."""
    made: Document = {}
    if "fault" in response:
        named = str(response["fault"])
        made["fault"] = _FAULTS.get(named, named)
    elif pieces := mapping_at(response, "chunkedDribbleDelay"):
        over = _duration(pieces.get("totalDuration"))
        made["fault"] = {"dribble": {"chunks": pieces.get("numberOfChunks"), "over": over}}
    if drawn := mapping_at(response, "delayDistribution"):
        made["delay"] = _delay(drawn)
    elif fixed := response.get("fixedDelayMilliseconds"):
        made["delay"] = _duration(fixed)
    for key, read in (("fault", read_fault), ("delay", read_delay)):
        try:
            if key in made:
                read(tree_of(made[key]))
        except Unreadable as error:
            del made[key]
            say(f"the {key} of the response is left out: {error.reason}")
    return made


def callbacks_of(
    mapping: Mapping[str, Any], render: Callable[[Any], Any], say: Say
) -> list[Document]:
    """Return the webhooks of a mapping; `render` makes templates ours. What is lost is said."""
    made: list[Document] = []
    for name, given in _listeners(mapping):
        if name != "webhook":
            say(f"{name[:60] or 'a listener without a name'} is left out")
            continue
        callback = _callback(given, render, say)
        try:
            made += [callback] if read_callbacks(tree_of([*made, callback])) else []
        except Unreadable as error:
            say(f"a webhook is left out: {error.reason}")
    return made


def _callback(given: Mapping[str, Any], render: Callable[[Any], Any], say: Say) -> Document:
    for key in given.keys() - _OF_WEBHOOK:
        say(f"webhook.{key} is left out")
    made: Document = {"url": render(text_at(given, "url"))}
    if method := text_at(given, "method"):
        made["method"] = method
    if headers := mapping_at(given, "headers"):
        made["headers"] = {key: render(str(each)) for key, each in headers.items()}
    if body := text_at(given, "body"):
        made["body"] = render(body_value(body))
    if delay := mapping_at(given, "delay"):
        made["delay"] = _delay(delay)
    return made


def _listeners(mapping: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield name and parameters of what is to happen after an answer, in each of its forms."""
    for key in WEBHOOKS:
        listed = mapping.get(key)
        if isinstance(listed, dict):
            yield from ((name, mapping_at(listed, name)) for name in listed)
        for each in listed if isinstance(listed, list) else ():
            if isinstance(each, dict):
                yield text_at(each, "name"), mapping_at(each, "parameters")


def _delay(drawn: Mapping[str, Any]) -> object:
    kind = text_at(drawn, "type")
    if kind == "uniform":
        return {"uniform": [_duration(drawn.get("lower")), _duration(drawn.get("upper"))]}
    if kind == "lognormal":
        median, sigma = _duration(drawn.get("median")), drawn.get("sigma")
        return {"lognormal": {"median": median, "sigma": sigma}}
    return {kind or "type": _duration(drawn.get("milliseconds"))}


def _duration(milliseconds: object) -> str:
    """Return milliseconds as mock files have them, at most a minute; "" for another type."""
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        return ""
    return f"{min(max(milliseconds, 0), MAX_DELAY_MS):.0f}ms"
