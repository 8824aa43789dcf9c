"""Which calls of a journal are meant, and how another call differs (reference: control-plane 18.1).

The journal masks credentials and cuts bodies, queries and headers: what a filter asks of such a
part cannot be said, and a call of which nothing else differs is neither one nor the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

import re2

from kernel.redaction import MASK
from mocks.engine.conditions import Test, compile_place, compile_test, key_of
from mocks.engine.documents import requirement, requirement_words
from mocks.model.calls import CALLBACK, CallOutcome, JournalEntry, MockRequest
from mocks.model.paths import json_text
from surfaces.documents import condition_terms
from surfaces.model import Condition, alternatives_of

MAX_SHOWN: Final = 200  # characters of a value
_QUIET: Final = re2.Options()
_QUIET.log_errors = False
_PARAMETER: Final = re2.compile(r"\{[^{}/]*\}")
_NO_STATE: Final[Mapping[str, str]] = {}
_Place = Callable[[MockRequest, Mapping[str, str]], Sequence[str]]


class CallComparison(NamedTuple):
    """How a call differs from a filter, and what cannot be said of it."""

    differences: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        return self.differences + self.unknown

    @property
    def is_match(self) -> bool:
        return not self.differences and not self.unknown

    @property
    def is_open(self) -> bool:
        return bool(self.unknown) and not self.differences


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter:
    """What is empty or None means any. A `{x}` of `path` stands for one segment.

    `when` has no conditions on the state or on cookies, which the journal does not have; what is
    `valid` breaks no contract, and what is `unmatched` has no operation or no example.
    """

    surface_id: str = ""
    operation_id: str = ""
    method: str = ""
    path: str = ""
    example: str = ""
    outcome: str = ""
    tag: str = ""
    valid: bool | None = None
    unmatched: bool = False
    since: datetime | None = None
    when: tuple[Condition, ...] = ()

    def matches(self, entry: JournalEntry) -> bool:
        return self.compare(entry).is_match

    def concerns(self, entry: JournalEntry) -> bool:
        """Return whether a mock got the call; what it sent itself counts if that is asked for."""
        return entry.method != CALLBACK or self.method == CALLBACK

    def compare(self, entry: JournalEntry) -> CallComparison:
        """Return how a call differs; of alternative conditions, those that differ least."""
        params = _path_params(self.path, entry)
        differences = (*self._differences(entry), *_path_differences(self.path, params, entry))
        if not self.when:
            return CallComparison(differences)
        request = _request_of(entry, params or {})
        compared = [
            _compare_conditions(each, request, entry) for each in alternatives_of(self.when)
        ]
        nearest = min(compared, key=lambda each: (len(each.differences), len(each.unknown)))
        return CallComparison(differences + nearest.differences, nearest.unknown)

    def _differences(self, entry: JournalEntry) -> list[str]:
        operation, answer = _quote(entry.operation_id), answer_words(entry)
        compared = (
            (self.operation_id, entry.operation_id,
             f"operation is {operation}, not {_quote(self.operation_id)}"
             if entry.operation_id else "it matches no operation"),
            (self.method, entry.method, f"method is {entry.method}, not {self.method}"),
            (self.surface_id, entry.surface_id,
             f"surface is {_quote(entry.surface_id)}, not {_quote(self.surface_id)}"),
            (self.example, entry.matched_example,
             f"answered by {answer}, not by example {_quote(self.example)}"),
            (self.outcome, entry.outcome, f"outcome is {entry.outcome}, not {self.outcome}"),
            (self.tag, entry.tag, f"tag is {_quote(entry.tag)}, not {_quote(self.tag)}"),
        )  # fmt: skip
        found = [text for wanted, had, text in compared if wanted not in ("", had)]
        if self.unmatched and entry.outcome is not CallOutcome.NO_MATCH:
            found.append(f"answered by {answer}")
        if self.valid is not None and self.valid is bool(entry.contract_errors):
            found.append("it breaks its contract" if self.valid else "it fits its contract")
        if self.since is not None and entry.time < self.since:
            found.append("it was earlier")
        return found

    def words(self) -> str:
        """Return which calls are meant: `pay POST /p with example "ok", header A "b"`."""
        named = (self.surface_id, self.operation_id, self.method, self.path)
        what = " ".join(filter(None, named)) or "any call"
        details = [f"example {_quote(self.example)}"] if self.example else []
        details += [f"outcome {self.outcome}"] if self.outcome else []
        details += [f"tag {_quote(self.tag)}"] if self.tag else []
        if self.valid is not None:
            details.append(f"calls that {'fit' if self.valid else 'break'} the contract")
        details += ["no match"] if self.unmatched else []
        details += [_condition_words(each) for each in self.when]
        return f"{what} with {', '.join(details)}" if details else what


def describe_call(entry: JournalEntry) -> str:
    """Return a call and its answer in a line: `POST /p → 201 (example "paid")`."""
    errors = [f"{each['pointer']} {each['detail']}" for each in entry.contract_errors[:1]]
    more = f" and {len(entry.contract_errors) - 1} more" if len(entry.contract_errors) > 1 else ""
    details = ", ".join([answer_words(entry), *errors]) + more
    query = f"?{entry.request_query}" if entry.request_query else ""
    return f"{entry.method} {(entry.path + query)[:MAX_SHOWN]} → {entry.status} ({details})"


def answer_words(entry: JournalEntry) -> str:
    """Return what answered a call: `example "paid"`, `no match`."""
    if entry.matched_example:
        return f"example {_quote(entry.matched_example)}"
    return str(entry.outcome).replace("_", " ")


def path_names(template: str) -> list[str]:
    """Return the names of the parameters of a path."""
    return [each[1:-1] for each in _PARAMETER.findall(template)]


@lru_cache(maxsize=256)
def _path_pattern(template: str) -> re2.Pattern[str] | None:
    """Return the pattern of a path, which is matched in linear time; None for a monstrous one."""
    literals = map(re2.escape, _PARAMETER.split(template))
    try:
        return re2.compile("([^/]+)".join(literals), options=_QUIET)
    except re2.error:
        return None


def _path_params(template: str, entry: JournalEntry) -> Mapping[str, str] | None:
    """Return the parameters of a call's path, None for another path.

    A call of gRPC, whose path is /package.Service/Method, is meant by its operation, too.
    """
    if template in ("", f"/{entry.operation_id}"):
        return {}
    pattern = _path_pattern(template)
    found = pattern.fullmatch(entry.path.partition("?")[0]) if pattern else None
    if found is None:
        return None
    values = map(unquote, found.groups())
    return dict(zip(path_names(template), values, strict=True))


def _path_differences(
    template: str, params: Mapping[str, str] | None, entry: JournalEntry
) -> Iterator[str]:
    if params is None:
        yield f"path is {entry.path}, not {template}"


def _request_of(entry: JournalEntry, params: Mapping[str, str]) -> MockRequest:
    """Return what the journal has of a request."""
    return MockRequest(
        entry.method,
        entry.path,
        headers=entry.request_headers,
        query=dict(reversed(parse_qsl(entry.request_query, keep_blank_values=True))),
        params=params,
        raw_body=entry.request_body.encode(errors="replace"),
        raw_query=entry.request_query,
    )


def _compare_conditions(
    conditions: Sequence[Condition], request: MockRequest, entry: JournalEntry
) -> CallComparison:
    differences, unknown = [], []
    for each in conditions:
        place, suits = _compile(each)
        texts = place(request, _NO_STATE)
        if reason := _why_unknown(each, texts, entry):
            unknown.append(reason)
        elif not suits(texts):
            differences.append(_condition_difference(each, texts))
    return CallComparison(tuple(differences), tuple(unknown))


@lru_cache(maxsize=1_000)
def _compile(condition: Condition) -> tuple[_Place, Test]:
    return compile_place(key_of(condition)), compile_test(condition)


def _why_unknown(condition: Condition, texts: Sequence[str], entry: JournalEntry) -> str:
    """Return why the journal cannot say whether a condition holds, "" if it can."""
    where = _place_words(condition)
    if condition.source in entry.cut and (condition.source != "header" or not texts):
        return f"{where} is not known: the journal has the {condition.source} in part"
    is_masked = any(MASK in text for text in texts)
    if condition.syntax and not texts:
        is_masked = MASK in entry.request_body
    if is_masked and (condition.operator != "absent" or not texts):
        return f"{where} is not known: the journal masks credentials"
    return ""


def _condition_difference(condition: Condition, texts: Sequence[str]) -> str:
    had = _quote(None if not texts else texts[0] if len(texts) == 1 else json_text(texts[:10]))
    where = _place_words(condition)
    if condition.is_equality:
        return f"{where} is {had}, not {_quote(condition.value)}"
    terms = {**condition_terms(condition), "expected": condition.value}
    value = "" if condition.operator == "absent" else f" {_quote(condition.value)}"
    return f"{where} is {had} and {requirement_words(terms)}{value}"


def _condition_words(condition: Condition) -> str:
    if condition.is_equality:
        return f"{_place_words(condition)} {_quote(condition.value)}"
    return requirement({**condition_terms(condition), "expected": condition.value}, _quote)


def _place_words(condition: Condition) -> str:
    joint = "." if condition.source == "body" and not condition.syntax else " "
    return f"{condition.source}{joint}{condition.param}"


def _quote(text: str | None) -> str:
    return "missing" if text is None else f'"{text[:MAX_SHOWN]}"'
