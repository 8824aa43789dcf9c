"""The choice of an example (reference: control-plane 18.3).

A dispatcher is one function in a module of `mocks/dispatchers`, registered by its name.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Final

from kernel.registry import Registry
from mocks.engine.callbacks import CompiledCallback
from mocks.engine.conditions import Key, Test, Texts, compile_place, compile_test, key_of
from mocks.engine.responses import Response
from mocks.engine.validation import RequestSchema, reader
from mocks.model.calls import MockAnswer, MockRequest
from mocks.model.ports import ScriptRunner, StateStore
from surfaces.model import Condition, Exchange, Rules, alternatives_of


class Candidate:
    """An example that may be chosen. `order` is its place in the file, from 0.

    `answer` is its answer if no request decides it and nothing is to be checked first. `variants`
    are the examples that say the same by their media types, if `Accept` chooses among them.
    """

    __slots__ = (
        "answer", "callbacks", "exchange", "media_type", "name", "order", "response", "schema",
        "variants",
    )  # fmt: skip

    def __init__(
        self, exchange: Exchange, order: int, response: Response, schema: RequestSchema | None,
        callbacks: Sequence[CompiledCallback] = (),
    ) -> None:  # fmt: skip
        self.exchange = exchange
        self.order = order
        self.name = exchange.name
        self.response = response
        self.schema = schema
        self.callbacks = callbacks
        self.answer: MockAnswer | None = None if schema or callbacks else response.constant
        self.media_type = response.media_type
        self.variants: Mapping[str, Candidate] = {}

    @property
    def is_on_request(self) -> bool:
        """Return whether only callers that ask for the example get it."""
        declared = self.exchange.declared
        return declared is not None and declared.is_on_request


@dataclass(frozen=True, slots=True)
class Place:
    """Which operation of which space; draws are counted by it."""

    suite_id: str
    space: str
    surface_id: str
    operation_id: str

    @property
    def identity(self) -> str:
        """Return what the operation is in every space of its suite."""
        return f"{self.suite_id}\0{self.surface_id}\0{self.operation_id}"


class Call:
    """What dispatchers know of a call. `state` are the fields of the record at the lookup key."""

    __slots__ = ("place", "request", "rng", "rules", "scripts", "state", "store")

    def __init__(  # noqa: PLR0913 - what a call consists of
        self,
        request: MockRequest,
        state: Mapping[str, str],
        place: Place,
        rules: Rules | None,
        *,
        store: StateStore,
        scripts: ScriptRunner,
        rng: random.Random,
    ) -> None:
        self.request = request
        self.state = state
        self.place = place
        self.rules = rules
        self.store = store
        self.scripts = scripts
        self.rng = rng

    async def draw(self) -> int:
        """Return how often the operation has drawn, and count this draw."""
        place = self.place
        return await self.store.draw(place.space, place.surface_id, place.operation_id)


class _RankedCandidate:
    """A candidate, or one of its alternatives; `tests` are its conditions but for equalities."""

    __slots__ = ("candidate", "rank", "tests")

    def __init__(self, candidate: Candidate, tests: list[tuple[Key, Test]], size: int) -> None:
        self.candidate = candidate
        self.tests = tests
        self.rank = (size, -candidate.order)


class _Group:
    """Entries whose equalities ask for the same parameters, by the values they ask for.

    `key` takes the values of these from all values, in the form of the keys of `by_values`.
    Those of one key are sorted, the best match first.
    """

    __slots__ = ("by_values", "key", "size")

    def __init__(self, places: tuple[int, ...]) -> None:
        self.size = 0
        self.key: Callable[[Sequence[str | None]], Any] = (
            itemgetter(*places) if places else lambda _values: ()
        )
        self.by_values: dict[Any, list[_RankedCandidate]] = {}


@dataclass(frozen=True, slots=True)
class Compared:
    """A condition with what a call has in its place; `texts` are several where a query finds so."""

    condition: Condition
    texts: Texts
    holds: bool


class Candidates:
    """The examples of an operation, indexed by the values that their equalities ask for.

    A call reads each parameter once, however many examples there are; other conditions are
    tested where the equalities of their example hold.
    """

    def __init__(self, listed: Sequence[Candidate]) -> None:
        self.listed = tuple(listed)
        self.by_name = {each.name: each for each in listed}
        conditions = [when for each in listed for when in each.exchange.when]
        self._readers = {key: compile_place(key) for key in map(key_of, conditions)}
        self._tests = {each: compile_test(each) for each in conditions}
        asked = dict.fromkeys(key_of(each) for each in conditions if each.is_equality)
        of_request = [key for key in asked if key[0] != "state"]
        self._reads = [reader(*key[:2]) for key in of_request]
        self._fields = [param for source, param, _ in asked if source == "state"]
        keys = [*of_request, *(("state", name, "") for name in self._fields)]
        self._places: dict[Key, int] = {key: place for place, key in enumerate(keys)}
        groups: dict[tuple[int, ...], _Group] = {}
        for each in listed:
            if not each.is_on_request:
                for alternative in alternatives_of(each.exchange.when):
                    self._add(each, alternative, groups)
        # most conditions first: the best match is in the first groups of one size that have any
        self._groups = sorted(groups.values(), key=lambda group: -group.size)
        for group in self._groups:
            for entries in group.by_values.values():
                entries.sort(key=lambda entry: entry.rank, reverse=True)
        self.reads_state = any(source == "state" for source, _, _ in self._readers)
        self.is_unconditional = not conditions

    def _add(
        self,
        candidate: Candidate,
        conditions: Sequence[Condition],
        groups: dict[tuple[int, ...], _Group],
    ) -> None:
        wanted: dict[int, str] = {}
        tests: dict[Condition, tuple[Key, Test]] = {}
        for each in conditions:
            if not each.is_equality:
                tests[replace(each, alternative=0)] = (key_of(each), self._tests[each])
            elif wanted.setdefault(self._places[key_of(each)], each.value) != each.value:
                return  # two values of one parameter: never matches
        places = tuple(sorted(wanted))
        group = groups.setdefault(places, _Group(places))
        entry = _RankedCandidate(candidate, list(tests.values()), len(wanted) + len(tests))
        group.size = max(group.size, entry.rank[0])
        key = group.key([wanted.get(place) for place in range(len(self._places))])
        group.by_values.setdefault(key, []).append(entry)

    def _values(self, request: MockRequest, state: Mapping[str, str]) -> list[str | None]:
        """Return the values of all parameters that equalities ask for."""
        values = [read(request) for read in self._reads]
        if self._fields:
            values += [state.get(name) for name in self._fields]
        return values

    def _texts(self, key: Key, call: _CallTexts) -> Texts:
        if key not in call.texts:
            call.texts[key] = self._readers[key](call.request, call.state)
        return call.texts[key]

    def _holds(self, entry: _RankedCandidate, call: _CallTexts) -> bool:
        return all(test(self._texts(key, call)) for key, test in entry.tests)

    def compare(
        self, request: MockRequest, state: Mapping[str, str]
    ) -> Callable[[Candidate], list[list[Compared]]]:
        """Return what compares a candidate with a call: the conditions of each alternative."""
        call = _CallTexts(request, state)

        def compare_one(candidate: Candidate) -> list[list[Compared]]:
            return [
                [
                    Compared(
                        each, texts := self._texts(key_of(each), call), self._tests[each](texts)
                    )
                    for each in conditions
                ]
                for conditions in alternatives_of(candidate.exchange.when)
            ]

        return compare_one

    def best(self, request: MockRequest, state: Mapping[str, str]) -> Candidate | None:
        """Return the match with the most conditions, the first in the file among equals."""
        values = self._values(request, state)
        call: _CallTexts | None = None
        best: _RankedCandidate | None = None
        for group in self._groups:
            if best is not None and group.size < best.rank[0]:
                break
            for entry in group.by_values.get(group.key(values), ()):
                if best is not None and entry.rank < best.rank:
                    break
                if entry.tests:
                    call = call or _CallTexts(request, state)
                    if not self._holds(entry, call):
                        continue
                best = entry
                break
        return best.candidate if best else None

    def matches(self, request: MockRequest, state: Mapping[str, str]) -> list[Candidate]:
        """Return all matches in the order of the file."""
        values = self._values(request, state)
        call = _CallTexts(request, state)
        found: dict[int, Candidate] = {}
        for group in self._groups:
            for entry in group.by_values.get(group.key(values), ()):
                if self._holds(entry, call):
                    found[entry.candidate.order] = entry.candidate
        return [found[order] for order in sorted(found)]


class _CallTexts:
    """A call, and the texts at the places of it that were looked at."""

    __slots__ = ("request", "state", "texts")

    def __init__(self, request: MockRequest, state: Mapping[str, str]) -> None:
        self.request = request
        self.state = state
        self.texts: dict[Key, Texts] = {}


Dispatcher = Callable[[Candidates, Call], Awaitable[Candidate | None]]
dispatchers: Final[Registry[Dispatcher]] = Registry("dispatcher", package="mocks.dispatchers")
