"""The answer that a caller asks for by `Prefer`, of a mock or its contract.

(reference: control-plane 18.2, step 4)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from kernel.errors import PlatformError
from mocks.engine.dispatch import Candidate
from mocks.model.calls import MockAnswer
from mocks.negotiation.prefer import Preferences

_LOWEST, _HIGHEST = 200, 599
_MAX_SHOWN: Final = 50  # of what there is


class NotThere(PlatformError):
    """No example of the mock and no response of its contract is what the caller asks for."""

    code = "mock_no_match"


@dataclass(frozen=True, slots=True)
class WantedExample:
    """An example, and the status to answer with where its contract has it in a range only."""

    candidate: Candidate
    status: int | None = None


def find_wanted(
    own: Sequence[Candidate], declared: Sequence[Candidate], wanted: Preferences
) -> WantedExample:
    """Return what suits code and example; one of the mock before one of its contract.

    `declared` are all examples of that contract. Raise NotThere.
    """
    code, name = wanted.code, wanted.example
    for listed in (own, declared):
        found = with_code(listed, code) if code else listed
        chosen = next((each for each in found if not name or name in names_of(each)), None)
        if chosen is not None:
            return WantedExample(chosen, _other_status(chosen, code))
    pool = (*own, *declared)
    known = (", ".join(names_of(each)[:1]) for each in (with_code(pool, code) if code else pool))
    if name and (names := _unique(known)):
        with_status = f" with code={code}" if code else ""
        raise NotThere(f'there is no example "{name}"{with_status}; there is {names}')
    codes = _unique(sorted(map(_code_of, pool)))
    raise NotThere(f"there is no answer with code={code}; there is {codes or 'none'}")


def with_schema(asked: WantedExample, declared: Sequence[Candidate]) -> WantedExample:
    """Return an example of the same status that has a schema, where a contract has one."""
    if asked.candidate.exchange.declared is not None:
        return asked
    found = with_code(declared, asked.candidate.exchange.status)
    return WantedExample(found[0], asked.status) if found else asked


def with_code(listed: Sequence[Candidate], code: str) -> Sequence[Candidate]:
    """Return the examples of a status; of a contract also those of `4XX` or `default`."""
    is_status = len(code) == len("200") and code.isascii() and code.isdecimal()
    if not is_status or not _LOWEST <= int(code) <= _HIGHEST:
        return ()
    for key in (code, f"{code[0]}XX", "DEFAULT"):
        found = [each for each in listed if _code_of(each).upper() == key]
        if found:
            return found
    return ()


def apply_preferences(
    answer: MockAnswer, found: WantedExample, candidate: Candidate, wanted: Preferences, *,
    randomness: Random,
) -> MockAnswer:  # fmt: skip
    """Return an answer as it was asked for, with a fresh body if that is possible.

    `candidate` is the variant of what was found that is answered.
    """
    declared = candidate.exchange.declared
    fresh = declared.fresh(randomness) if wanted.dynamic and declared is not None else None
    applied = wanted.applied_text(is_fresh=fresh is not None)
    headers = [*answer.headers, ("preference-applied", applied)] if applied else [*answer.headers]
    if wanted.named:
        headers.append(("vary", "Prefer"))
    return replace(
        answer,
        status=answer.status if found.status is None else found.status,
        body=answer.body if fresh is None else candidate.response.encode(fresh),
        headers=tuple(headers),
    )


def names_of(candidate: Candidate) -> tuple[str, ...]:
    """Return the names by which an example can be asked for, that of its contract first."""
    declared = candidate.exchange.declared
    own = declared.example if declared else ""
    return (own, candidate.name) if own else (candidate.name,)


def _code_of(candidate: Candidate) -> str:
    declared = candidate.exchange.declared
    return declared.response if declared else candidate.exchange.status.strip()


def _other_status(candidate: Candidate, code: str) -> int | None:
    return int(code) if code and _code_of(candidate) != code else None


def _unique(names: Iterable[str]) -> str:
    return ", ".join([*dict.fromkeys(names)][:_MAX_SHOWN])[:1_000]
