"""Examples that are one answer in several media types, and the one that a caller accepts.

(reference: control-plane 18.2, step 4)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kernel.errors import PlatformError
from mocks.engine.dispatch import Candidate
from mocks.engine.wanted_examples import names_of
from mocks.model.calls import MockAnswer
from mocks.negotiation.accept import ANY, best_media_type

_ERRORS: Final = 400  # from this status on, an answer goes out whatever the caller accepts


class NotAcceptable(PlatformError):
    code = "not_acceptable"

    def __init__(self, accept: str, offered: Sequence[str]) -> None:
        super().__init__(
            f"nothing suits Accept: {accept[:200]}; there is {', '.join(offered)[:1_000]}"
        )


def link_variants(listed: Sequence[Candidate], *, dispatcher: str) -> None:
    """Let examples know the media types in which they are there, JSON of a contract first.

    Of a contract those of one response belong together, of a file those with equal conditions.
    An example of a contract has variants even if it is the only one: others are not acceptable.
    """
    groups: dict[object, list[Candidate]] = {}
    for each in listed:
        declared = each.exchange.declared
        if declared is not None and declared.media_type:
            groups.setdefault(declared.response, []).append(each)
        elif declared is None and dispatcher == "example" and each.media_type:
            groups.setdefault(frozenset(each.exchange.when), []).append(each)
    for group in groups.values():
        kinds: dict[str, list[Candidate]] = {}
        for each in group:
            kinds.setdefault(_kind(each), []).append(each)
        if len(kinds) == 1 and group[0].exchange.declared is None:
            continue
        for each in group:
            each.variants = {kind: _likest(each, same) for kind, same in kinds.items()}


def _kind(candidate: Candidate) -> str:
    declared = candidate.exchange.declared
    return declared.media_type if declared else candidate.media_type


def _likest(candidate: Candidate, others: Sequence[Candidate]) -> Candidate:
    """Return the one that says the same: itself, that of its name, that of its conditions."""
    exchange = candidate.exchange

    def rank(other: Candidate) -> tuple[bool, bool, bool]:
        own, its = exchange.declared, other.exchange.declared
        same_name = own is not None and its is not None and own.example == its.example
        return other is candidate, same_name, other.exchange.when in (exchange.when, ())

    return max(others, key=rank)


def accepted_variant(candidate: Candidate, accept: str, name: str = "") -> Candidate:
    """Return the variant that suits `Accept` best; raise NotAcceptable.

    `name`: the example that is asked for, which no other one can stand for.
    """
    variants = candidate.variants
    if not variants:
        return candidate
    offered = tuple(variants)
    if name:
        offered = tuple(kind for kind, each in variants.items() if name in names_of(each))
    chosen = best_media_type("" if accept in ANY else accept, offered)
    if chosen is not None:
        return variants[chosen]
    status = candidate.exchange.status
    if status.isdecimal() and int(status) >= _ERRORS:
        return candidate
    raise NotAcceptable(accept, offered)


def with_vary(answer: MockAnswer, candidate: Candidate) -> MockAnswer:
    """Return an answer that says so where `Accept` chose it."""
    if len(candidate.variants) <= 1:
        return answer
    return replace(answer, headers=(*answer.headers, ("vary", "Accept")))
