"""How mocks behave badly on purpose: broken answers, delays, limits; and calls that they send.

These are the values, and how files say them (reference: control-plane 6.2, 6.3).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from math import exp
from random import Random
from typing import Annotated, ClassVar, Final, Literal, cast

from readers.diagnostics import nearest_advice
from readers.tree import Kind, Tree
from surfaces.forms import (
    STRIPPED,
    FileNotes,
    Form,
    duration,
    list_of,
    misspelling,
    read_text,
    refuse_larger,
    unreadable_at,
    whole,
)
from surfaces.records import Also, FileRecord, Named, read_record, record_of
from surfaces.template_checks import check_body, check_templates
from surfaces.template_expressions import calls_function
from surfaces.text_maps import HEADERS
from surfaces.trees import body_text, items, text_of

FaultKind = Literal["reset", "empty", "half", "garbage", "dribble"]
FAULTS: Final = ("reset", "empty", "half", "garbage", "dribble")
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")
MAX_DELAY_MS: Final = 60_000
_MAX_SIGMA: Final = 5.0
_MAX_CALLBACKS: Final = 10  # of an example
_DRIBBLE: Final = "dribble: {chunks: 5, over: 1s}"
# what the same is called elsewhere
_ELSEWHERE: Final[Mapping[str, str]] = {
    "connection_reset_by_peer": "reset", "connection_reset": "reset", "empty_response": "empty",
    "malformed_response_chunk": "half", "random_data_then_close": "garbage",
    "chunkeddribbledelay": _DRIBBLE, "dribble": _DRIBBLE,
}  # fmt: skip


class Dribble(FileRecord, frozen=True, kw_only=True):
    """A body that comes in pieces."""

    label: ClassVar = "dribble"
    chunks: Annotated[int, whole(1, 1_000), "in how many pieces"]
    over_ms: Annotated[int, Named("over"), duration(0, MAX_DELAY_MS), "within which time"]


class FaultKeys(FileRecord, frozen=True, kw_only=True):
    """A fault that has settings of its own."""

    label: ClassVar = "a fault"
    dribble: Dribble


class MockFault(FileRecord, frozen=True, kw_only=True):
    """How an answer breaks; `dribble` sends its body in `chunks` pieces over `over_ms`."""

    kind: FaultKind
    chunks: int = 0
    over_ms: int = 0

    @property
    def shows_answer(self) -> bool:
        """Return whether a client sees something of the answer."""
        return self.kind in ("half", "dribble")


def read_fault(tree: Tree, _key: str = "fault", notes: FileNotes | None = None) -> MockFault:
    """Return a fault, a word or `{dribble: {chunks, over}}`; raise Unreadable."""
    if tree.kind is Kind.MAP:
        given = read_record(FaultKeys, tree, notes).dribble
        return MockFault(kind="dribble", chunks=given.chunks, over_ms=given.over_ms)
    word = text_of(tree).strip().lower()
    if word in FAULTS and word != "dribble":
        return MockFault(kind=cast("FaultKind", word))
    known = _ELSEWHERE.get(word)
    advice = f"write {known}" if known else nearest_advice(word, FAULTS)
    raise unreadable_at(tree, f'"{word[:40]}" is not a fault; {advice}')


class Delay(FileRecord, frozen=True, kw_only=True):
    """How long an answer waits: between two bounds, with `sigma` lognormal around a median."""

    lowest_ms: int = 0
    highest_ms: int = 0
    median_ms: int = 0
    sigma: float = 0.0

    @property
    def is_fixed(self) -> bool:
        return self.lowest_ms == self.highest_ms

    def draw_ms(self, randomness: Random) -> int:
        """Return the delay of one answer."""
        if self.is_fixed:
            return self.lowest_ms
        if not self.sigma:
            return randomness.randint(self.lowest_ms, self.highest_ms)
        drawn = self.median_ms * exp(min(self.sigma * randomness.gauss(0, 1), 20))
        return min(round(drawn), self.highest_ms)


def _fixed_delay(form: Form) -> Form:
    """Return the form of a delay that is always the same."""

    def read(tree: Tree, key: str, notes: FileNotes) -> Delay:
        fixed: int = form.read(tree, key, notes)
        return Delay(lowest_ms=fixed, highest_ms=fixed)

    return Form(read, form.schema)


def _uniform(tree: Tree, key: str, notes: FileNotes) -> Delay:
    bounds = [_TIME.read(each, key, notes) for each in tree.items]
    if len(bounds) != 2 or bounds[0] > bounds[1]:  # noqa: PLR2004 - lowest and highest
        raise unreadable_at(tree, "uniform is a list: [lowest, highest]")
    return Delay(lowest_ms=bounds[0], highest_ms=bounds[1])


def _lognormal(tree: Tree, _key: str, notes: FileNotes) -> Delay:
    given = read_record(Lognormal, tree, notes)
    return Delay(highest_ms=MAX_DELAY_MS, median_ms=given.median_ms, sigma=given.sigma)


def _sigma(tree: Tree, _key: str, _notes: FileNotes) -> float:
    try:
        sigma = float(text_of(tree)[:20])
    except ValueError:
        sigma = math.nan
    if not 0 < sigma <= _MAX_SIGMA:
        raise unreadable_at(tree, f"sigma must be above 0 and at most {_MAX_SIGMA:g}")
    return sigma


_TIME: Final = duration(0, MAX_DELAY_MS)
_FIXED: Final = _fixed_delay(_TIME)
_SIGMA: Final = Form(_sigma, {"type": "number", "exclusiveMinimum": 0, "maximum": _MAX_SIGMA})


class Lognormal(FileRecord, frozen=True, kw_only=True):
    """A delay whose logarithm is normally distributed, as that of many servers is."""

    label: ClassVar = "lognormal"
    median_ms: Annotated[int, Named("median"), _TIME, "what half of the answers take at most"]
    sigma: Annotated[float, _SIGMA, "how far the others are from it"]


class DelayForms(FileRecord, frozen=True, kw_only=True):
    """A delay: one of these, or a duration alone, as in `200ms`."""

    label: ClassVar = "delay"
    fixed: Annotated[Delay | None, _FIXED, "the same for each answer"] = None
    uniform: Annotated[
        Delay | None,
        Form(_uniform, {"type": "array", "items": _TIME.schema, "minItems": 2, "maxItems": 2}),
        "between the lowest and the highest",
    ] = None
    lognormal: Annotated[Delay | None, Form(_lognormal, {"$ref": Lognormal})] = None


def read_delay(tree: Tree, key: str = "delay", notes: FileNotes | None = None) -> Delay:
    """Return a delay: `200ms`, `{fixed}`, `{uniform: [lowest, highest]}`, `{lognormal: {…}}`.

    Raise Unreadable.
    """
    notes = notes or FileNotes()
    if tree.kind is not Kind.MAP:
        return cast("Delay", _FIXED.read(tree, key, notes))
    given = read_record(DelayForms, tree, notes)
    found = [each for each in (given.fixed, given.uniform, given.lognormal) if each]
    if len(found) != 1:
        raise unreadable_at(tree, "a delay is one of fixed, uniform and lognormal")
    return found[0]


DELAY: Final = Form(read_delay, {"anyOf": [_TIME.schema, {"$ref": DelayForms}]})
DELAY_MILLIS: Final = Also("delayMillis", _fixed_delay(whole(0, MAX_DELAY_MS)))
FAULT: Final = Form(read_fault, {"anyOf": [{"enum": list(FAULTS[:-1])}, {"$ref": FaultKeys}]})


class CallLimit(FileRecord, frozen=True, kw_only=True):
    """At most `calls` within `per`, counted from the first of them; what comes beyond is 429."""

    label: ClassVar = "rateLimit"
    form: ClassVar = "{calls: 10, per: 1s}"
    calls: Annotated[int, whole(1, 1_000_000), "how many calls"]
    per_ms: Annotated[int, Named("per"), duration(1, 3_600_000), "within which time, as in 1s"]


def _check_url(tree: Tree) -> None:
    if "{{" not in tree.text and not is_http(tree.text.strip()):
        raise unreadable_at(tree, "the url of a callback begins with http:// or https://")
    check_templates(tree)


def is_http(url: str) -> bool:
    return url.lower().startswith(("http://", "https://"))


def _method(tree: Tree, key: str, notes: FileNotes) -> str:
    method: str = read_text(tree, key, notes).strip().upper()
    if not (method.isascii() and method.isalpha()) or method in ("CONNECT", "TRACE"):
        raise unreadable_at(tree, f'"{method[:20]}" is not a method of a callback')
    if reason := misspelling("method", method, METHODS):
        raise unreadable_at(tree, reason)
    return method


def _body(tree: Tree, _key: str, _notes: FileNotes) -> str:
    refuse_larger(tree, "body")
    return body_text(tree)


BODY: Final = Form(_body, {}, "blank")
TEMPLATE: Final = STRIPPED.with_check(check_templates)
TEMPLATE_BODY: Final = BODY.with_check(check_body)
TEMPLATE_HEADERS: Final = HEADERS.with_check(check_templates)


class Callback(FileRecord, frozen=True, kw_only=True):
    """A call that is sent after an answer; `url`, `headers` and `body` are templates."""

    label: ClassVar = "a callback"
    form: ClassVar = "{url: …, method: POST, body: …}"
    url: Annotated[str, STRIPPED.with_check(_check_url), "where the call goes; a template"]
    method: Annotated[str, Form(_method, {"type": "string"}), "POST, where it is missing"] = "POST"
    headers: Annotated[Mapping[str, str], TEMPLATE_HEADERS, "its headers; templates"] = {}
    body: Annotated[str | None, TEMPLATE_BODY, "its body; every string in it is a template"] = None
    delay: Annotated[Delay, DELAY, "how long after the answer"] = Delay()


def read_callbacks(
    tree: Tree, key: str = "callbacks", notes: FileNotes | None = None
) -> tuple[Callback, ...]:
    """Return the calls that follow an answer; raise Unreadable."""
    refuse_larger(tree, "list of callbacks")
    made: tuple[Callback, ...] = _CALLBACKS.read(tree, key, notes or FileNotes())
    for each in items(tree):
        for _, value in each.walk():
            if calls_function(value.text, "counter"):
                raise unreadable_at(value, "a callback has no counter; use it in the response")
    return made


_CALLBACKS: Final = list_of(record_of(Callback), _MAX_CALLBACKS)
CALLBACKS: Final = Form(read_callbacks, _CALLBACKS.schema)
