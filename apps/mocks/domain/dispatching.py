"""The choice of an example (reference: control-plane 18.3).

A dispatcher is one function in a module of `apps/mocks/dispatchers`, registered by its name.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from apps.mocks.domain.calls import MockAnswer, MockRequest
from apps.mocks.domain.ports import ScriptRunner
from apps.mocks.domain.responses import Response
from apps.mocks.domain.validation import Read, RequestSchema, reader
from kernel.registry import Registry
from surfaces.model import Condition, Exchange, Rules


class Candidate:
    """An example that may be chosen. `order` is its place in the file, from 0.

    `answer` is its answer if no request decides it and nothing is to be checked first.
    """

    __slots__ = ("answer", "exchange", "name", "order", "response", "schema")

    def __init__(
        self, exchange: Exchange, order: int, response: Response, schema: RequestSchema | None
    ) -> None:
        self.exchange = exchange
        self.order = order
        self.name = exchange.name
        self.response = response
        self.schema = schema
        self.answer: MockAnswer | None = None if schema else response.constant


class Call:
    """What dispatchers know of a call. `state` are the fields of the record at the lookup key."""

    __slots__ = ("_values", "draw", "identity", "request", "rng", "rules", "scripts", "state")

    def __init__(  # noqa: PLR0913 - what a call consists of
        self,
        request: MockRequest,
        state: Mapping[str, str],
        *,
        rules: Rules | None,
        identity: str,
        draw: Callable[[], Awaitable[int]],
        scripts: ScriptRunner,
        rng: random.Random,
    ) -> None:
        self.request = request
        self.state = state
        self.rules = rules
        self.identity = identity
        self.draw = draw
        self.scripts = scripts
        self.rng = rng


class _Group:
    """Candidates whose conditions ask for the same parameters, by the values they ask for."""

    __slots__ = ("by_values", "conditions", "places")

    def __init__(self, conditions: int, places: tuple[int, ...]) -> None:
        self.conditions = conditions
        self.places = places
        self.by_values: dict[tuple[str, ...], list[Candidate]] = {}


class Candidates:
    """The examples of an operation, indexed by the values that their conditions ask for.

    A call reads each parameter once, however many examples there are.
    """

    def __init__(self, listed: Sequence[Candidate]) -> None:
        self.listed = tuple(listed)
        self.by_name = {each.name: each for each in listed}
        self._reads: list[Callable[[MockRequest, Mapping[str, str]], str | None]] = []
        self._places: dict[tuple[str, str], int] = {}
        groups: dict[tuple[int, tuple[int, ...]], _Group] = {}
        for each in listed:
            self._add(each, groups)
        # most conditions first: the best match is in the first group of its size that has one
        self._groups = sorted(groups.values(), key=lambda group: -group.conditions)
        self.reads_state = any(source == "state" for source, _ in self._places)
        self.is_unconditional = not self._reads

    def _add(self, candidate: Candidate, groups: dict[tuple[int, tuple[int, ...]], _Group]) -> None:
        wanted: dict[int, str] = {}
        asked = [(self._place(each), each.value) for each in candidate.exchange.when]
        if any(wanted.setdefault(place, value) != value for place, value in asked):
            return  # two values of one parameter: never matches
        places = tuple(sorted(wanted))
        key = (len(places), places)
        group = groups.setdefault(key, _Group(*key))
        group.by_values.setdefault(tuple(wanted[at] for at in places), []).append(candidate)

    def _place(self, condition: Condition) -> int:
        """Return where a parameter is among those that are read."""
        source, param = condition.source, condition.param
        key = (source, param.lower() if source == "header" else param)
        if key not in self._places:
            self._places[key] = len(self._reads)
            self._reads.append(_reads(*key))
        return self._places[key]

    def values(self, request: MockRequest, state: Mapping[str, str]) -> list[str | None]:
        """Return the values of all parameters that conditions ask for."""
        return [read(request, state) for read in self._reads]

    def compared(
        self, candidate: Candidate, values: Sequence[str | None]
    ) -> list[tuple[Condition, str | None]]:
        """Return the conditions of a candidate, each with the value that is there."""
        when = candidate.exchange.when
        return [(each, values[self._place(each)]) for each in when]

    def best(self, request: MockRequest, state: Mapping[str, str]) -> Candidate | None:
        """Return the match with the most conditions, the first in the file among equals."""
        values = [read(request, state) for read in self._reads]
        best: Candidate | None = None
        size = 0
        for group in self._groups:
            if best is not None and group.conditions < size:
                break
            key: Any = tuple([values[at] for at in group.places])  # None is the value of no example
            found = group.by_values.get(key)
            if found and (best is None or found[0].order < best.order):
                best, size = found[0], group.conditions
        return best

    def matches(self, request: MockRequest, state: Mapping[str, str]) -> list[Candidate]:
        """Return all matches in the order of the file."""
        values = [read(request, state) for read in self._reads]
        found: list[Candidate] = []
        for group in self._groups:
            key: Any = tuple([values[at] for at in group.places])
            found += group.by_values.get(key, ())
        return sorted(found, key=lambda each: each.order)


def _reads(source: str, param: str) -> Callable[[MockRequest, Mapping[str, str]], str | None]:
    if source == "state":
        return lambda _request, state: state.get(param)
    read: Read = reader(source, param)
    return lambda request, _state: read(request)


Dispatcher = Callable[[Candidates, Call], Awaitable[Candidate | None]]
dispatchers: Final[Registry[Dispatcher]] = Registry("dispatcher", package="apps.mocks.dispatchers")
