"""What a test asks of the calls that mocks got, and the answer (reference: control-plane 18.1).

asked = read_question({"method": "POST", "path": "/orders", "count": 2})
verify(asked, journal.newest(space))      # {"count": 1, "verified": False, "detail": …}
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NotRequired, TypedDict

import msgspec

from kernel import clock
from kernel.wire_types import Count
from mocks.engine.documents import CallDocument, call_document
from mocks.inspection.call_filters import CallComparison, CallFilter, describe_call, path_names
from mocks.inspection.questions import VerifyInput, invalid, read_body
from mocks.journal.entries import MAX_ENTRIES, is_secret
from mocks.model.calls import JournalEntry
from readers import Unreadable
from readers.tree import Kind, Tree
from surfaces.mock_files.conditions import read_conditions
from surfaces.model import Condition
from surfaces.trees import tree_of

MAX_PARAMETERS: Final = 50  # of a path
BUSY_S: Final = 3.0
_SHOWN: Final = 5


class NearestCall(TypedDict):
    """The other call that differs least, and how."""

    call: CallDocument
    differences: list[str]


class Verification(TypedDict):
    """How many calls were meant; `verified` is false where that was not asked for.

    `detail` says what came instead. `calls` are the newest of them, newest first; `nearest` is
    another one, where there should have been more.
    """

    count: Count
    verified: bool
    detail: str
    calls: list[CallDocument]
    nearest: NotRequired[NearestCall]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The calls that are meant, and how many there should be (`most` None: no limit)."""

    given: VerifyInput
    filter: CallFilter
    least: int
    most: int | None

    @property
    def asks_nothing(self) -> bool:
        return self.least == 0 and self.most is None


def read_question(document: Any) -> Question:
    """Return what the body of a request asks; raise InvalidInput with a pointer.

    `null` counts as absent.
    """
    given = read_body(VerifyInput, document)
    least, most = _times(given)
    try:
        since = clock.parse_rfc3339(given.since) if given.since else None
    except ValueError:
        raise invalid("since", "must be a time such as 2026-01-02T03:04:05Z") from None
    path = given.path if not given.path or given.path.startswith("/") else f"/{given.path}"
    if len(path_names(path)) > MAX_PARAMETERS:
        raise invalid("path", f"has at most {MAX_PARAMETERS} parameters")
    wanted = CallFilter(
        surface_id=given.surface_id,
        operation_id=given.operation_id,
        method=given.method.upper(),
        path=path,
        example=given.example,
        outcome=given.outcome or "",
        tag=given.tag,
        valid=given.valid,
        unmatched=given.unmatched,
        since=since,
        when=_conditions(given.when, path),
    )
    return Question(given=given, filter=wanted, least=least, most=most)


def why_some_are_lost(entries: Sequence[JournalEntry], since: datetime | None) -> str:
    """Return why a journal may lack calls since a time, "" if it has them all."""
    is_full = len(entries) >= MAX_ENTRIES and (since is None or entries[-1].time >= since)
    return f"only the newest {MAX_ENTRIES:,} calls of a space are kept" if is_full else ""


def verify(asked: Question, entries: Sequence[JournalEntry], *, gap: str = "") -> Verification:
    """Return how many calls were meant, and whether that was asked for.

    `gap` tells why there may have been more calls than `entries`, the newest first. What they, or
    parts that the journal masks or cuts, would decide is not verified. Raise InvalidInput for what
    takes too long.
    """
    compared = _compare(asked.filter, entries)
    found = [entry for entry, each in compared if each.is_match]
    others = [(entry, each) for entry, each in compared if not each.is_match]
    open_calls = [each for _, each in others if each.is_open]
    why_open = _why_open(open_calls, gap)
    verdict = _verdict(asked, len(found), math.inf if gap else len(found) + len(open_calls))
    document: Verification = {
        "count": len(found),
        "verified": verdict is True,
        "detail": f"found {_calls(len(found))} of {asked.filter.words()}",
        "calls": [call_document(each) for each in found[: asked.given.limit]],
    }
    is_short = len(found) < max(asked.least, 1)
    nearest = min(others, key=_distance, default=None) if is_short else None
    if nearest is not None:
        entry, each = nearest
        document["nearest"] = {"call": call_document(entry), "differences": list(each.reasons)}
    if verdict is not True:
        document["detail"] = _failure(asked, found, nearest, why_open if verdict is None else "")
    elif asked.asks_nothing and why_open:
        document["detail"] += f"; there may be more: {why_open}"
    return document


def _failure(
    asked: Question, found: Sequence[JournalEntry],
    nearest: tuple[JournalEntry, CallComparison] | None, why_open: str,
) -> str:  # fmt: skip
    text = f"expected {_number_words(asked.least, asked.most)} of {asked.filter.words()}"
    text += f", found {len(found)}"
    if why_open:
        text += f", which cannot be decided: {why_open}"
    if nearest is not None:
        entry, each = nearest
        return f"{text}; nearest: {describe_call(entry)}: {'; '.join(each.reasons)}"
    if len(found) < asked.least:
        return f"{text}; there was no {'other ' if found else ''}call"
    listed = "; ".join(describe_call(each) for each in found[:_SHOWN])
    return f"{text}: {listed}{'; …' if len(found) > _SHOWN else ''}" if found else text


def _verdict(asked: Question, low: int, high: float) -> bool | None:
    """Return whether so many calls are right, whatever the number from `low` to `high`; or None."""
    least, most = asked.least, math.inf if asked.most is None else asked.most
    if low >= least and (high <= most or most == math.inf):
        return True
    return False if high < least or low > most else None


def _compare(
    wanted: CallFilter, entries: Sequence[JournalEntry]
) -> list[tuple[JournalEntry, CallComparison]]:
    until = time.monotonic() + BUSY_S
    compared = []
    for entry in filter(wanted.concerns, entries):
        if time.monotonic() > until:
            raise invalid("when", "takes too long to compare; narrow it by path, tag or since")
        compared.append((entry, wanted.compare(entry)))
    return compared


def _distance(compared: tuple[JournalEntry, CallComparison]) -> tuple[int, int]:
    return len(compared[1].differences), len(compared[1].unknown)


def _why_open(open_calls: Sequence[CallComparison], gap: str) -> str:
    if gap or not open_calls:
        return gap
    more = f" (and {len(open_calls) - 1} more calls)" if len(open_calls) > 1 else ""
    return f"{open_calls[0].unknown[0]}{more}"


def _times(given: VerifyInput) -> tuple[int, int | None]:
    if given.count is None:
        if given.at_least and given.at_most is not None and given.at_least > given.at_most:
            raise invalid("atLeast", "is more than atMost")
        return given.at_least or 0, given.at_most
    for name, other in (("atLeast", given.at_least), ("atMost", given.at_most)):
        if other is not None:
            raise invalid(name, "says otherwise than count; write one of them")
    return given.count, given.count


def _conditions(when: Sequence[Mapping[str, Any]], path: str) -> tuple[Condition, ...]:
    """Read conditions; the line of a tree is the number of its entry, so that errors name it."""
    try:
        entries = tuple(
            tree_of(each, at=Tree(kind=Kind.NULL, line=number))
            for number, each in enumerate(when, start=1)
        )
        for number, entry in enumerate(entries):
            for condition in _read(entry):
                if reason := _why_not_kept(condition, path):
                    raise invalid(f"when/{number}", reason)
        return _read(*entries)
    except Unreadable as error:
        raise invalid(f"when/{error.line - 1}" if error.line else "when", error.reason) from None
    except (RecursionError, TypeError):
        raise invalid("when", "is nested too deep") from None


def _read(*entries: Tree) -> tuple[Condition, ...]:
    listed = Tree(kind=Kind.LIST, items=entries)
    return read_conditions(Tree(kind=Kind.MAP, pairs={"when": listed}))


def _why_not_kept(condition: Condition, path: str) -> str:
    """Return why the journal never says whether a condition held, "" where it may."""
    source, param = condition.source, condition.param
    if source == "state":
        return "the journal has no state; GET /api/v1/mocks/state shows it as it is now"
    if source == "cookie":
        return "the journal masks cookies"
    if source == "path" and param not in path_names(path):
        return f"write path with {{{param}}} in it, such as /orders/{{{param}}}"
    if (
        source in ("header", "query")
        and condition.operator != "absent"
        and is_secret(source, param)
    ):
        return f"the journal masks the {source} {param}; only absent can be asked"
    return ""


def _calls(number: int) -> str:
    return "1 call" if number == 1 else f"{number} calls"


def _number_words(least: int, most: int | None) -> str:
    if most is None:
        return f"at least {_calls(least)}"
    if least == most:
        return _calls(least)
    return f"{least} to {_calls(most)}" if least else f"at most {_calls(most)}"
