"""Faults, delays, rate limits and callbacks of mock files (reference: control-plane 6.2, 6.3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, cast

from kernel.durations import parse_period_s
from readers.diagnostics import nearest_advice
from readers.tree import Kind, Tree
from surfaces.behaviors import (
    FAULTS,
    MAX_DELAY_MS,
    Callback,
    CallLimit,
    Delay,
    FaultKind,
    MockFault,
)
from surfaces.mock_files.template_checks import check_body, check_templates
from surfaces.mock_files.text_maps import header_map
from surfaces.mock_files.value_nodes import unreadable_at
from surfaces.template_expressions import calls_function
from surfaces.trees import body_text, items, member, nonblank_member, text_of

_MAX_CHUNKS: Final = 1_000
_MAX_CALLS: Final = 1_000_000
_MAX_PER_MS: Final = 3_600_000
_MAX_SIGMA: Final = 5.0
_MAX_CALLBACKS: Final = 10  # of an example
_DRIBBLE: Final = "dribble: {chunks: 5, over: 1s}"
# what the same is called elsewhere
_ELSEWHERE: Final[Mapping[str, str]] = {
    "connection_reset_by_peer": "reset", "connection_reset": "reset", "empty_response": "empty",
    "malformed_response_chunk": "half", "random_data_then_close": "garbage",
    "chunkeddribbledelay": _DRIBBLE, "dribble": _DRIBBLE,
}  # fmt: skip


def read_fault(tree: Tree) -> MockFault:
    """Return a fault, a word or `{dribble: {chunks, over}}`; raise Unreadable."""
    if tree.kind is Kind.MAP:
        _refuse_unknown(tree, "a fault", ("dribble",))
        dribble = member(tree, "dribble") or tree
        _refuse_unknown(dribble, "dribble", ("chunks", "over"))
        return MockFault(
            kind="dribble",
            chunks=_whole(member(dribble, "chunks"), dribble, "chunks", _MAX_CHUNKS),
            over_ms=_duration_ms(member(dribble, "over"), dribble, "over"),
        )
    word = text_of(tree).strip().lower()
    if word in FAULTS and word != "dribble":
        return MockFault(kind=cast("FaultKind", word))
    known = _ELSEWHERE.get(word)
    advice = f"write {known}" if known else nearest_advice(word, FAULTS)
    raise unreadable_at(tree, f'"{word[:40]}" is not a fault; {advice}')


def read_delay_ms(tree: Tree) -> Delay:
    """Return the delay of `delayMillis`; raise Unreadable."""
    is_whole = tree.text.isdecimal() and len(tree.text) <= len(str(MAX_DELAY_MS))
    if not is_whole or int(tree.text) > MAX_DELAY_MS:
        raise unreadable_at(tree, f"delayMillis must be an integer from 0 to {MAX_DELAY_MS}")
    return Delay(lowest_ms=int(tree.text), highest_ms=int(tree.text))


def read_delay(tree: Tree) -> Delay:
    """Return a delay: `200ms`, `{fixed}`, `{uniform: [lowest, highest]}`, `{lognormal: {…}}`.

    Raise Unreadable.
    """
    if tree.kind is not Kind.MAP:
        fixed = _duration_ms(tree, tree, "delay")
        return Delay(lowest_ms=fixed, highest_ms=fixed)
    _refuse_unknown(tree, "delay", ("fixed", "uniform", "lognormal"))
    if len(tree.pairs) != 1:
        raise unreadable_at(tree, "a delay is one of fixed, uniform and lognormal")
    if (given := member(tree, "fixed")) is not None:
        fixed = _duration_ms(given, tree, "fixed")
        return Delay(lowest_ms=fixed, highest_ms=fixed)
    if (uniform := member(tree, "uniform")) is not None:
        bounds = [_duration_ms(each, uniform, "uniform") for each in uniform.items]
        if len(bounds) != 2 or bounds[0] > bounds[1]:  # noqa: PLR2004 - lowest and highest
            raise unreadable_at(uniform, "uniform is a list: [lowest, highest]")
        return Delay(lowest_ms=bounds[0], highest_ms=bounds[1])
    given = member(tree, "lognormal") or tree
    _refuse_unknown(given, "lognormal", ("median", "sigma"))
    return Delay(
        highest_ms=MAX_DELAY_MS,
        median_ms=_duration_ms(member(given, "median"), given, "median"),
        sigma=_sigma(member(given, "sigma"), given),
    )


def read_own_delay(tree: Tree | None) -> Delay | None:
    """Return what `delayMillis` or `delay` of a mapping says; raise Unreadable."""
    millis, delay = nonblank_member(tree, "delayMillis"), nonblank_member(tree, "delay")
    if millis is not None and delay is not None:
        raise unreadable_at(delay, "use one of delayMillis and delay")
    if millis is not None:
        return read_delay_ms(millis)
    return None if delay is None else read_delay(delay)


def read_rate_limit(tree: Tree) -> CallLimit:
    """Return a limit, `{calls: 10, per: 1s}`; raise Unreadable."""
    if tree.kind is not Kind.MAP:
        raise unreadable_at(tree, "rateLimit is a mapping: {calls: 10, per: 1s}")
    _refuse_unknown(tree, "rateLimit", ("calls", "per"))
    return CallLimit(
        calls=_whole(member(tree, "calls"), tree, "calls", _MAX_CALLS),
        per_ms=_duration_ms(member(tree, "per"), tree, "per", lowest=1, highest=_MAX_PER_MS),
    )


def read_callbacks(tree: Tree) -> tuple[Callback, ...]:
    """Return the calls that follow an answer; raise Unreadable."""
    if len(items(tree)) > _MAX_CALLBACKS:
        raise unreadable_at(tree, f"more than {_MAX_CALLBACKS} callbacks")
    return tuple(_callback(each) for each in items(tree))


def _callback(tree: Tree) -> Callback:
    if tree.kind is not Kind.MAP:
        raise unreadable_at(tree, "a callback is a mapping: {url: …, method: POST, body: …}")
    _refuse_unknown(tree, "a callback", ("url", "method", "headers", "body", "delay"))
    url = text_of(member(tree, "url")).strip()
    if "{{" not in url and not url.lower().startswith(("http://", "https://")):
        raise unreadable_at(
            member(tree, "url") or tree, "the url of a callback begins with http:// or https://"
        )
    method = text_of(member(tree, "method")).strip().upper() or "POST"
    if not (method.isascii() and method.isalpha()) or method in ("CONNECT", "TRACE"):
        raise unreadable_at(tree, f'"{method[:20]}" is not a method of a callback')
    body, delay = member(tree, "body"), nonblank_member(tree, "delay")
    check_templates(member(tree, "url"), member(tree, "headers"))
    if body is not None:
        check_body(body)
    if any(calls_function(each.text, "counter") for _, each in tree.walk()):
        raise unreadable_at(tree, "a callback has no counter; use it in the response")
    return Callback(
        url=url,
        method=method,
        headers=header_map(member(tree, "headers")),
        body=None if body is None else body_text(body),
        delay=Delay() if delay is None else read_delay(delay),
    )


def _refuse_unknown(tree: Tree, place: str, known: tuple[str, ...]) -> None:
    for name, value in tree.pairs.items():
        if name.lower() not in {key.lower() for key in known}:
            advice = nearest_advice(name, known)
            raise unreadable_at(value, f'{place} has no key "{name[:40]}"; {advice}')


def _whole(tree: Tree | None, owner: Tree, name: str, highest: int) -> int:
    text = text_of(tree)
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(highest))):
        text = "0"
    if not 1 <= int(text) <= highest:
        raise unreadable_at(tree or owner, f"{name} must be an integer from 1 to {highest}")
    return int(text)


def _duration_ms(
    tree: Tree | None, owner: Tree, name: str, *, lowest: int = 0, highest: int = MAX_DELAY_MS
) -> int:
    text = text_of(tree).strip()
    if text.isascii() and text.isdecimal() and text.strip("0"):
        advice = f"{text[:9]}ms or {text[:9]}s"
        raise unreadable_at(tree or owner, f"{name} needs a unit, as in {advice}")
    try:
        found = round(parse_period_s(text) * 1000)
    except ValueError as error:
        raise unreadable_at(tree or owner, f"{name}: {error}") from None
    if not lowest <= found <= highest:
        raise unreadable_at(tree or owner, f"{name} must be from {lowest} ms to {highest} ms")
    return found


def _sigma(tree: Tree | None, owner: Tree) -> float:
    try:
        sigma = float(text_of(tree)[:20])
    except ValueError:
        sigma = math.nan
    if not 0 < sigma <= _MAX_SIGMA:
        raise unreadable_at(tree or owner, f"sigma must be above 0 and at most {_MAX_SIGMA:g}")
    return sigma
