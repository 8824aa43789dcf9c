"""What the mock engine needs from outside; each port has an implementation in memory.

Methods are coroutines so that Redis can serve them; those of the memory never suspend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from kernel.errors import PlatformError
from mocks.model.spaces import SpaceName
from surfaces.model import Surface


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRecord:
    """A record of a space; each change raises `version`, the first is 1 unless it was removed."""

    key: str
    surface_id: str
    fields: Mapping[str, str]
    version: int
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """How often an operation of dispatcher sequence or random has drawn since the last reset."""

    surface_id: str
    operation_id: str
    value: int


class StateStore(Protocol):
    """Records and counters of spaces (reference: control-plane 18.5). `space` is str(SpaceName).

    `waits` is False where no method ever suspends.
    """

    @property
    def waits(self) -> bool: ...

    async def read(self, space: str, key: str) -> StateRecord | None: ...

    async def change(
        self,
        space: str,
        key: str,
        surface_id: str,
        *,
        version: int,
        fields: Mapping[str, str] | None,
    ) -> bool:
        """Store `fields` as the next version, or remove the record if None.

        Return False, and change nothing, unless the stored version is `version` (0: no record). A
        record that is made again begins above its last version: no call takes it for the old one.
        """
        ...

    async def draw(self, space: str, surface_id: str, operation_id: str) -> int:
        """Return the operation's counter and increment it, atomically; the first is 0."""
        ...

    async def records(self, space: str, *, key: str = "") -> Sequence[StateRecord]:
        """Return the records by key."""
        ...

    async def counters(self, space: str) -> Sequence[Counter]: ...

    async def reset(self, space: str, *, surface_id: str = "", key: str = "") -> int:
        """Remove records and, without `key`, counters; return how many of both there were."""
        ...


class ScriptFailed(PlatformError):
    code = "mock_script_failed"


class ScriptRunner(Protocol):
    async def run(
        self,
        source: str,
        *,
        defines_function: bool,
        request: Mapping[str, Any],
        state: Mapping[str, str],
    ) -> str | None:
        """Return the name of an example or None; raise ScriptFailed, after 50 ms at the latest."""
        ...


class ProxyRefused(PlatformError):
    code = "mock_proxy_refused"


class ProxyFailed(PlatformError):
    code = "mock_proxy_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyAnswer:
    status: int
    media_type: str
    headers: Sequence[tuple[str, str]]
    body: bytes


class Proxy(Protocol):
    async def forward(
        self, url: str, *, method: str, headers: Mapping[str, str], body: bytes,
        let_through: frozenset[str],
    ) -> ProxyAnswer:  # fmt: skip
        """Send a request to the checked address of `url`; raise ProxyRefused or ProxyFailed.

        `let_through`: lower-case names of credentials that a constraint forwards
        (reference: control-plane 18.4).
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceContent:
    """What a space serves. `generation` changes with it: another one means to compile again."""

    suite_id: str
    title: str
    repository: str
    generation: str
    surfaces: tuple[Surface, ...] = field(default=())
    files: Mapping[str, bytes] = field(default_factory=dict)  # of the suite: protos are compiled


class SpaceSource(Protocol):
    """Where the content of spaces comes from; called on threads, may use the store and wait."""

    def load(self, name: SpaceName) -> SpaceContent | None:
        """Return what a space serves; None without such a suite, or when the run has ended."""
        ...

    def generations(self, names: Sequence[SpaceName]) -> Mapping[SpaceName, str]:
        """Return the generations of those spaces that still exist."""
        ...
