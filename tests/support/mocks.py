"""Spaces and engines for tests of mocks, without a server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from mocks.engine.documents import Explanation
from mocks.engine.engine import Engine
from mocks.engine.tables import CompiledOperation, CompiledSpace, CompiledSurface, compile_space
from mocks.inspection.explanation import explain
from mocks.model.calls import MockAnswer, MockRequest
from mocks.model.ports import Counter, ProxyAnswer, SpaceContent, StateRecord
from mocks.model.spaces import SpaceName
from surfaces import surfaces_of

BASE = "http://localhost:8090"
_TIME = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class StateInDicts:
    """The state of spaces. With `races`, other calls run before each answer.

    `floor`: no new record has a version up to it.
    """

    waits = False

    stored: dict[tuple[str, str], StateRecord] = field(default_factory=dict)
    drawn: dict[tuple[str, str, str], int] = field(default_factory=dict)
    races: random.Random | None = None
    reads: int = 0
    floor: int = 0

    async def _others(self) -> None:
        for _ in range(self.races.randrange(3) if self.races else 0):
            await asyncio.sleep(0)

    async def read(self, space: str, key: str) -> StateRecord | None:
        await self._others()
        self.reads += 1
        found = self.stored.get((space, key))
        await self._others()
        return found

    async def change(
        self, space: str, key: str, surface_id: str, *, version: int,
        fields: Mapping[str, str] | None,
    ) -> bool:  # fmt: skip
        await self._others()
        known = self.stored.get((space, key))
        if (known.version if known else 0) != version:
            return False
        if fields is None:
            self.floor = max(self.floor, version)
            self.stored.pop((space, key), None)
        else:
            number = (known.version if known else self.floor) + 1
            self.stored[space, key] = StateRecord(
                key=key, surface_id=surface_id, fields=dict(fields), version=number,
                updated_at=_TIME,
            )  # fmt: skip
        return True

    async def draw(self, space: str, surface_id: str, operation_id: str) -> int:
        await self._others()
        place = (space, surface_id, operation_id)
        self.drawn[place] = self.drawn.get(place, 0) + 1
        return self.drawn[place] - 1

    async def records(self, space: str, *, key: str = "") -> Sequence[StateRecord]:
        found = (each for (place, _), each in self.stored.items() if place == space)
        return [each for each in found if key in ("", each.key)]

    async def counters(self, space: str) -> Sequence[Counter]:
        return [
            Counter(surface_id=surface, operation_id=operation, value=value)
            for (place, surface, operation), value in self.drawn.items()
            if place == space
        ]

    async def reset(self, space: str, *, surface_id: str = "", key: str = "") -> int:
        count = len(self.stored) + len(self.drawn)
        self.stored.clear()
        self.drawn.clear()
        return count

    def fields(self, key: str, space: str = "shop") -> Mapping[str, str] | None:
        found = self.stored.get((space, key))
        return found.fields if found else None


@dataclass
class ScriptAnswers:
    """A script runner that answers `named`, or raises it."""

    named: Any = None
    calls: list[dict[str, Any]] = field(default_factory=list)

    async def run(
        self, source: str, *, defines_function: bool, request: Mapping[str, Any],
        state: Mapping[str, str],
    ) -> str | None:  # fmt: skip
        self.calls.append({"source": source, "request": request, "state": dict(state)})
        if isinstance(self.named, Exception):
            raise self.named
        name: str | None = self.named
        return name


@dataclass
class ProxyAnswers:
    """A proxy that answers `answer`, or raises it, and keeps what it was asked to send."""

    answer: Any = field(
        default_factory=lambda: ProxyAnswer(
            status=299, media_type="text/plain", headers=[("x-from", "upstream")], body=b"upstream"
        )
    )
    sent: list[dict[str, Any]] = field(default_factory=list)

    async def forward(
        self, url: str, *, method: str, headers: Mapping[str, str], body: bytes,
        let_through: frozenset[str],
    ) -> ProxyAnswer:  # fmt: skip
        self.sent.append(
            {"url": url, "method": method, "headers": headers, "body": body, "let": let_through}
        )
        if isinstance(self.answer, Exception):
            raise self.answer
        found: ProxyAnswer = self.answer
        return found


@dataclass
class Mocks:
    """A space of a suite, and an engine with fakes around it."""

    space: CompiledSpace
    warnings: list[str]
    state: StateInDicts = field(default_factory=StateInDicts)
    scripts: ScriptAnswers = field(default_factory=ScriptAnswers)
    proxy: ProxyAnswers = field(default_factory=ProxyAnswers)
    seed: int = 1

    def __post_init__(self) -> None:
        self.engine = Engine(
            state=self.state, scripts=self.scripts, proxy=self.proxy, rng=random.Random(self.seed)
        )

    @property
    def surface(self) -> CompiledSurface:
        (surface,) = self.space.surfaces.values()
        return surface

    @property
    def operation(self) -> CompiledOperation:
        (operation,) = self.surface.operations.values()
        return operation

    def request(
        self, target: str = "/", *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> tuple[CompiledOperation, MockRequest]:
        """Return a request with the method of the first operation; `target` is `/path?name=x`."""
        path, _, raw_query = target.partition("?")
        operation = next(iter(self.surface.operations.values()))
        params: dict[str, str] = {}
        if operation.adapter == "rest":
            found = self.surface.route(operation.operation.method, path)
            assert found is not None, f"{path} is not {operation.operation.path}"
            operation, params = found
        query = parse_qs(raw_query, keep_blank_values=True)
        made = MockRequest(
            operation.operation.method,
            path,
            headers={name.lower(): value for name, value in (headers or {}).items()},
            query={name: values[0] for name, values in query.items()},
            params=params,
            raw_body=body,
            raw_query=raw_query,
        )
        return operation, made

    async def call(
        self, target: str = "/", *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> MockAnswer:
        operation, request = self.request(target, headers=headers, body=body)
        return (await self.engine.answer_route(operation, request))[1]

    async def explain(
        self,
        target: str = "/",
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        defaults_only: bool = False,
    ) -> Explanation:
        operation, request = self.request(target, headers=headers, body=body)
        return await explain(self.engine, operation, request, defaults_only=defaults_only)


def mocks_of(
    files: Mapping[str, str], *, space: str = "shop", suite_id: str = "shop", seed: int = 1
) -> Mocks:
    content = {path: text.encode() for path, text in files.items()}
    found, warnings = surfaces_of(content, suite_id=suite_id, base_url=BASE)
    name = SpaceName.parse(space)
    assert name is not None
    made = SpaceContent(
        suite_id=suite_id, title="Shop", repository="registry.example/core/shop",
        generation="1", surfaces=found, files=content,
    )  # fmt: skip
    return Mocks(compile_space(made, name), [each.detail for each in warnings], seed=seed)


def mock_of(spec: str, examples: str, **options: Any) -> Mocks:
    """Return the mocks of a suite with one operation, `pay`, of the surface `payments`.

    `spec` and `examples` are flow mappings of YAML: `path: /pay, method: GET`.
    """
    made = mocks_of(
        {
            "mock/payments/pay.metadata.yaml": f"spec: {{{spec}}}",
            "mock/payments/pay.yaml": f"examples: {{{examples}}}",
        },
        **options,
    )
    unexpected = [each for each in made.warnings if "never answers" not in each]
    assert unexpected == [], unexpected
    return made
