"""What an unmatched call was nearest to: an example of its operation, or an operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mocks.engine.dispatch import Candidate, Compared
from mocks.engine.documents import ExplainedCondition
from mocks.engine.routes import MAX_SEGMENTS, segments
from mocks.engine.tables import CompiledOperation, CompiledSurface
from mocks.model.calls import MockRequest
from mocks.model.paths import json_text
from mocks.model.ports import StateRecord
from surfaces.documents import condition_terms

MAX_CONDITIONS: Final = 1_000  # that are compared
MAX_LISTED: Final = 50  # conditions that do not hold
MAX_OPERATIONS: Final = 200
MAX_SHOWN: Final = 1_000  # characters of a value
_REDACTED: Final = "********"
_CREDENTIALS: Final = ("authorization", "cookie", "token", "secret", "password", "key")


def nearest(
    place: CompiledOperation | CompiledSurface,
    request: MockRequest,
    record: StateRecord | None = None,
) -> dict[str, Any] | None:
    """Return the nearest example of an operation, or the nearest operation of a surface."""
    if isinstance(place, CompiledSurface):
        return nearest_operation(place, request.method, request.path)
    state = place.tables.state
    fields = {**(state.defaults if state else {}), **(record.fields if record else {})}
    return nearest_example(place, request, fields)


def nearest_example(
    operation: CompiledOperation, request: MockRequest, state: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return the example of which most conditions hold, and the conditions that do not.

    Of equals, the one with the fewest that do not, then the first in the file.
    """
    candidates = operation.tables.candidates
    compare = candidates.compare(request, state)
    best: tuple[int, int] | None = None
    found: tuple[Candidate, list[ExplainedCondition]] | None = None
    room = MAX_CONDITIONS
    for each in candidates.listed:
        for compared in compare(each):
            failing = [one for one in compared if not one.holds]
            rank = (len(compared) - len(failing), -len(failing))
            if best is None or rank > best:
                best = rank
                found = (
                    each,
                    [condition_document(one, redact=True) for one in failing[:MAX_LISTED]],
                )
            room -= len(compared) + 1
        if room < 0:
            break
    return {"example": found[0].name, "conditions": found[1]} if found else None


def condition_document(compared: Compared, *, redact: bool = False) -> ExplainedCondition:
    """Return a condition and the value that is there; `redact` hides credentials."""
    condition, texts = compared.condition, compared.texts
    is_hidden = redact and (
        condition.source == "cookie"
        or (condition.source == "header" and is_credential(condition.param))
    )
    actual = texts[0] if len(texts) == 1 else json_text([each[:MAX_SHOWN] for each in texts[:10]])
    document: ExplainedCondition = {
        **condition_terms(condition),
        "expected": condition.value,
        "actual": _REDACTED if is_hidden else actual[:MAX_SHOWN],
        "ok": compared.holds,
    }
    if not texts:
        del document["actual"]
    return document


def is_credential(header: str) -> bool:
    name = header.lower()
    return any(word in name for word in _CREDENTIALS)


def nearest_operation(surface: CompiledSurface, method: str, path: str) -> dict[str, Any] | None:
    """Return the operation with this path and another method, otherwise the most similar path."""
    for other in surface.routes.methods:
        found = surface.routes.find(other, path or "/")
        if found is not None:
            return _operation_document(found[0], "method")
    wanted = segments(path)
    best: tuple[int, int, int, int] | None = None
    nearest_: CompiledOperation | None = None
    for each in _similar(surface, wanted):
        rank = _similarity(wanted, segments(each.operation.path), each.operation.method == method)
        if best is None or rank > best:
            best, nearest_ = rank, each
    return _operation_document(nearest_, "path") if nearest_ else None


def _similar(surface: CompiledSurface, wanted: list[str]) -> list[CompiledOperation]:
    """Return operations that share a literal with a path, those of the rarest literals first.

    Without one, return any; in each case at most `MAX_OPERATIONS`.
    """
    index = surface.by_literal
    shared = [index[place] for place in enumerate(wanted[:MAX_SEGMENTS]) if place in index]
    found: dict[str, CompiledOperation] = {}
    for listed in (*sorted(shared, key=len), surface.routed):
        if found and listed is surface.routed:
            break
        for each in listed[: MAX_OPERATIONS - len(found)]:
            found[each.operation.operation_id] = each
    return list(found.values())


def _similarity(
    wanted: list[str],
    offered: list[str],
    same_method: bool,  # noqa: FBT001 - a criterion
) -> tuple[int, int, int, int]:
    """Return how near a path template is: equal segments, length, equal beginnings, method."""
    pairs = [*zip(wanted, offered, strict=False)]
    score = sum(2 if one == other else bool(one) and "{" in other for one, other in pairs)
    begun = sum(_equal_beginning(one, other) for one, other in pairs)
    return score, -abs(len(wanted) - len(offered)), begun, int(same_method)


def _equal_beginning(one: str, other: str) -> int:
    """Return how many letters two segments begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _operation_document(operation: CompiledOperation, differs: str) -> dict[str, Any]:
    return {
        "operationId": operation.operation.operation_id,
        "method": operation.operation.method,
        "path": operation.operation.path,
        "differs": differs,
    }
