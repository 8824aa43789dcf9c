"""The `curl` command that calls a mock, ready for a shell."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

from surfaces.contracts import ContractOperation, bounded_body
from surfaces.model import Exchange
from surfaces.operation_rules import ParameterConstraint
from surfaces.samples import Sampler, shown_body, shown_headers

_PARAMETER: Final = re.compile(r"\{([^{}]*)\}")
_WITHOUT_BODY: Final = ("GET", "HEAD", "OPTIONS", "TRACE")


def curl_command(
    url: str,
    method: str,
    *,
    contract: ContractOperation | None,
    exchange: Exchange | None,
    constraints: tuple[ParameterConstraint, ...],
    sampler: Sampler,
) -> str:
    """Return a command for the first example, completed from its contract."""
    request = _Request(contract, exchange, constraints, sampler)
    target = _PARAMETER.sub(lambda found: quote(request.value("path", found[1]), safe=""), url)
    if query := dict(request.parameters("query")):
        target, _, given = target.partition("?")
        kept = [pair for pair in parse_qsl(given, keep_blank_values=True) if pair[0] not in query]
        target += "?" + urlencode([*kept, *query.items()])
    words = ["curl", "-i"]
    if any(mark in target for mark in "[]{}"):
        words.append("-g")
    if method == "HEAD":
        words.append("-I")
    elif method != "GET":
        words += ["-X", method]
    words.append(target)
    body = "" if method in _WITHOUT_BODY else request.body()
    for name, value in request.headers(has_body=bool(body)).items():
        words += ["-H", f"{name}: {value}" if value else f"{name};"]
    if body:
        words += ["--data-raw", body]
    return " ".join(map(_quote, words))


def _quote(word: str) -> str:
    """Quote for a POSIX shell, without line breaks and control characters."""
    return shlex.quote("".join(letter if letter.isprintable() else " " for letter in word))


class _Request:
    """The values of a request: conditions of the example, then its contract, then constraints."""

    def __init__(
        self,
        contract: ContractOperation | None,
        exchange: Exchange | None,
        constraints: tuple[ParameterConstraint, ...],
        sampler: Sampler,
    ) -> None:
        self.contract = contract
        self.exchange = exchange
        self.constraints = constraints
        self.sampler = sampler

    def value(self, source: str, name: str) -> str:
        return dict(self.parameters(source)).get(name) or name or "value"

    def parameters(self, source: str) -> Iterator[tuple[str, str]]:
        """Yield names and values of one source; later ones win."""
        for constraint in self.constraints:
            if constraint.source == source and constraint.required:
                yield constraint.name, constraint.name.lower()
        for parameter in self.contract.parameters if self.contract else ():
            if parameter.source == source:
                yield parameter.name, parameter.sample
        for condition in self.exchange.when if self.exchange else ():
            value = condition.sample if condition.alternative <= 1 else None
            if condition.source == source and value is not None and "{{" not in value:
                yield condition.param, value

    def headers(self, *, has_body: bool) -> dict[str, str]:
        """Return the headers; names ignore case."""
        found: dict[str, tuple[str, str]] = {}
        given = shown_headers(self.exchange.request, self.sampler) if self.exchange else {}
        for name, value in (*self.parameters("header"), *given.items()):
            found[name.lower()] = (name, value)
        if has_body and "content-type" not in found:
            media_type = self.contract.media_type if self.contract else ""
            shown = media_type if media_type and "*" not in media_type else "application/json"
            found["content-type"] = ("Content-Type", shown)
        return dict(found.values())

    def body(self) -> str:
        text = ""
        if self.exchange:
            text = _compact(shown_body(self.exchange.request, self.sampler))
        if not text:
            text = _with_conditions(self.contract, self.exchange)
        return bounded_body(text)


def _with_conditions(contract: ContractOperation | None, exchange: Exchange | None) -> str:
    """Return a contract's sample with the values that the example's conditions want."""
    text = contract.body if contract and contract.body else ""
    wanted = [
        (each.param, each.sample)
        for each in (exchange.when if exchange else ())
        if each.source == "body" and each.alternative <= 1 and each.sample is not None
    ]
    if not wanted:
        return text
    try:
        body = json.loads(text or "{}")
    except ValueError:
        return text
    if not isinstance(body, dict):
        return text
    for param, value in wanted:
        _put(body, param.split(".")[:8], value)
    return json.dumps(body, ensure_ascii=False)


def _put(body: dict[str, object], names: list[str], value: str) -> None:
    *folders, last = names
    for name in folders:
        below = body.setdefault(name, {})
        if not isinstance(below, dict):
            below = body[name] = {}
        body = below
    old = body.get(last)
    body[last] = _like(old, value)


def _like(old: object, value: str) -> object:
    """Return a text as JSON if it is a number or boolean there, since these match by their text."""
    if isinstance(old, str):
        return value
    try:
        parsed = json.loads(value)
    except ValueError:
        return value
    return parsed if isinstance(parsed, int | float | bool) else value


def _compact(text: str) -> str:
    try:
        return json.dumps(json.loads(text), ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
