"""The choice of an example (reference: control-plane 18.3).

A dispatcher is one function in a module of `mocks/dispatchers`, registered by its name.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from kernel.registry import Registry
from mocks.engine.responses import Response
from mocks.engine.validation import RequestSchema, reader
from mocks.model.calls import MockAnswer, MockRequest
from mocks.model.ports import ScriptRunner, StateStore
from surfaces.model import Condition, Exchange, Rules


class Candidate:
    """An example that may be chosen. `order` is its place in the file, from 0.

    `answer` is its answer if no request decides it and nothing is to be checked first. `variants`
    are the examples that say the same by their media types, if `Accept` chooses among them.
    """

    __slots__ = (
        "answer", "exchange", "media_type", "name", "order", "response", "schema", "variants",
    )  # fmt: skip

    def __init__(
        self, exchange: Exchange, order: int, response: Response, schema: RequestSchema | None
    ) -> None:
        self.exchange = exchange
        self.order = order
        self.name = exchange.name
        self.response = response
        self.schema = schema
        self.answer: MockAnswer | None = None if schema else response.constant
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


_Key = tuple[str, str]  # source and parameter


class _Group:
    """Candidates whose conditions ask for the same parameters, by the values they ask for.

    `key` takes the values of these from all values, in the form of the keys of `by_values`.
    """

    __slots__ = ("by_values", "key", "size")

    def __init__(self, places: tuple[int, ...]) -> None:
        self.size = len(places)
        self.key: Callable[[Sequence[str | None]], Any] = (
            itemgetter(*places) if places else lambda _values: ()
        )
        self.by_values: dict[Any, list[Candidate]] = {}


class Candidates:
    """The examples of an operation, indexed by the values that their conditions ask for.

    A call reads each parameter once, however many examples there are.
    """

    def __init__(self, listed: Sequence[Candidate]) -> None:
        self.listed = tuple(listed)
        self.by_name = {each.name: each for each in listed}
        asked = dict.fromkeys(_key(when) for each in listed for when in each.exchange.when)
        of_request = [key for key in asked if key[0] != "state"]
        self._reads = [reader(*key) for key in of_request]
        self._fields = [param for source, param in asked if source == "state"]
        keys = [*of_request, *(("state", name) for name in self._fields)]
        self._places = {key: place for place, key in enumerate(keys)}
        groups: dict[tuple[int, ...], _Group] = {}
        for each in listed:
            if not each.is_on_request:
                self._add(each, groups)
        # most conditions first: the best match is in the first groups of one size that have any
        self._groups = sorted(groups.values(), key=lambda group: -group.size)
        self.reads_state = bool(self._fields)
        self.is_unconditional = not asked

    def _add(self, candidate: Candidate, groups: dict[tuple[int, ...], _Group]) -> None:
        wanted: dict[int, str] = {}
        for each in candidate.exchange.when:
            if wanted.setdefault(self._places[_key(each)], each.value) != each.value:
                return  # two values of one parameter: never matches
        places = tuple(sorted(wanted))
        group = groups.setdefault(places, _Group(places))
        key = group.key([wanted.get(place) for place in range(len(self._places))])
        group.by_values.setdefault(key, []).append(candidate)

    def values(self, request: MockRequest, state: Mapping[str, str]) -> list[str | None]:
        """Return the values of all parameters that conditions ask for."""
        values = [read(request) for read in self._reads]
        if self._fields:
            values += [state.get(name) for name in self._fields]
        return values

    def conditions_with_values(
        self, candidate: Candidate, values: Sequence[str | None]
    ) -> list[tuple[Condition, str | None]]:
        """Return the conditions of a candidate, each with the value of the call."""
        return [(each, values[self._places[_key(each)]]) for each in candidate.exchange.when]

    def best(self, request: MockRequest, state: Mapping[str, str]) -> Candidate | None:
        """Return the match with the most conditions, the first in the file among equals."""
        values = self.values(request, state)
        best: Candidate | None = None
        size = 0
        for group in self._groups:
            if best is not None and group.size < size:
                break
            found = group.by_values.get(group.key(values))
            if found and (best is None or found[0].order < best.order):
                best, size = found[0], group.size
        return best

    def matches(self, request: MockRequest, state: Mapping[str, str]) -> list[Candidate]:
        """Return all matches in the order of the file."""
        values = self.values(request, state)
        found: list[Candidate] = []
        for group in self._groups:
            found += group.by_values.get(group.key(values), ())
        return sorted(found, key=lambda each: each.order)


def _key(condition: Condition) -> _Key:
    is_header = condition.source == "header"
    return condition.source, condition.param.lower() if is_header else condition.param


Dispatcher = Callable[[Candidates, Call], Awaitable[Candidate | None]]
dispatchers: Final[Registry[Dispatcher]] = Registry("dispatcher", package="mocks.dispatchers")
