"""The spaces of this process: compiled content, loaded and refreshed on threads of their own.

    space = spaces.get(text, now)          # never waits
    if space is None:
        space = await spaces.load(text)    # waits for a thread

The event loop never asks the store. A thread asks for the generations of the spaces in use, so a
suite that changed or a run that ended is noticed within FRESH_S; a space that nobody used for a
while is checked before its next answer. While the store is away or slow, spaces in use are served
as they were, and nobody waits for it; spaces that are not known are refused.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from kernel.background import PeriodicThread, report_error
from kernel.errors import PlatformError
from kernel.registry import Registry
from mocks.errors import SpaceNotActive, SuiteNotFound
from mocks.model.ports import SpaceContent, SpaceSource
from mocks.model.spaces import SpaceName

if TYPE_CHECKING:
    from mocks.engine.tables import CompiledSpace

space_sources: Final[Registry[SpaceSource]] = Registry("space source")  # "suite" and "run"
FRESH_S: Final = 2.0  # how old what is known of a space may be
REFRESH_S: Final = 0.8
IN_USE_S: Final = 10.0  # after its last call, the refresh leaves a space alone
ABSENT_S: Final = 1.0
AWAY_S: Final = 5.0  # after a look that found no store, known spaces are served without another
REFUSED_S: Final = 1.0  # after it, unknown spaces are refused without another
BRIEF_S: Final = 0.02  # for a look at a space in use, which is served as it was otherwise
THREADS: Final = 4
MAX_SPACES: Final = 1_000
MAX_BYTES: Final = 256 * 2**20  # of the files of all spaces, and again of the contents kept
MAX_WAITING: Final = 256  # looks at the store that are under way or wait
_MAX_ABSENT: Final = 2_000
_MAX_CONTENTS: Final = 64
logger = logging.getLogger("partita.mocks")
Resets = Mapping[str, int]  # how often each surface was reset; "" stands for the whole space


class SpacesBusy(PlatformError):
    code = "queue_full"


class SpacesUnavailable(PlatformError):
    code = "datastore_unavailable"


class ResetState(Protocol):
    def apply_resets(self, space: str, resets: Resets) -> bool:
        """Empty what is newly reset; return False if that has to be repeated."""
        ...


@dataclass(slots=True, eq=False)
class LiveSpace:
    """A space that can be served. `compiled` is replaced when its content changes.

    `checked_at` and `used_at` are of time.monotonic().
    """

    name: SpaceName
    text: str
    compiled: CompiledSpace
    generation: str
    weight: int
    checked_at: float = 0.0
    used_at: float = 0.0
    ticket: int = 0
    resets: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SpacesSetup:
    """What `Spaces` is made of; `resets` returns the numbers of the store by space.

    `is_away` tells errors of a store that does not answer from others. `connect` runs before a
    look at the store on any thread, `disconnect` after one on a thread that may then be idle.
    """

    source_of: Callable[[str], SpaceSource | None]
    compile: Callable[[SpaceContent, SpaceName], CompiledSpace]
    resets: Callable[[Sequence[str]], Mapping[str, Resets]] = lambda _names: {}
    state: ResetState | None = None
    is_away: Callable[[Exception], bool] = lambda _error: False
    connect: Callable[[], object] = lambda: None
    disconnect: Callable[[], object] = lambda: None


class Spaces:
    """The compiled spaces of this process. It is thread-safe."""

    def __init__(self, setup: SpacesSetup) -> None:
        self._setup = setup
        self._lock = threading.Lock()
        self._live: dict[str, LiveSpace] = {}
        self._absent: dict[str, float] = {}  # until when
        self._loading: dict[str, Future[LiveSpace | None]] = {}
        self._looking = 0  # of `load_now`
        self._away_at = float("-inf")  # the last look that found no store, unless one did since
        self._contents: OrderedDict[tuple[str, str], SpaceContent] = OrderedDict()
        self._tickets = itertools.count(1)
        self._pool: ThreadPoolExecutor | None = None
        self._ended = threading.Event()
        self._thread: PeriodicThread | None = None

    def start(self) -> None:
        """Refresh the spaces in use from now on."""
        self._ended.clear()
        self._thread = PeriodicThread("mock-spaces", self.refresh, self._is_over, ended=self._ended)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join(5)
            self._thread = None
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def get(self, text: str, now: float) -> LiveSpace | None:
        """Return a space if what is known of it is fresh, or the store is away."""
        found = self._live.get(text)
        if found is None:
            return None
        if now - found.checked_at > FRESH_S and now - self._away_at > AWAY_S:
            return None
        found.used_at = now
        return found

    async def find(self, name: SpaceName) -> LiveSpace:
        """Return a space as it is known, otherwise as `load`; raise as `require_space`."""
        text = str(name)
        return require_space(name, self.get(text, time.monotonic()) or await self.load(text))

    async def load(self, text: str) -> LiveSpace | None:
        """Return a space after a look at the store, None if it does not exist or has ended.

        Callers that come meanwhile share the look. For a space in use, which the thread refreshes
        as well, nobody waits longer than BRIEF_S: it is returned as it was. Raise SpacesBusy, and
        SpacesUnavailable if the store is away and nothing is known of the space.
        """
        if (until := self._absent.get(text)) is not None:
            if time.monotonic() < until:
                return None
            self._absent.pop(text, None)
        name = SpaceName.parse(text)
        if name is None:
            return None
        known, look = self._in_use(text), asyncio.wrap_future(self._start(name, text))
        if known is not None:
            await asyncio.wait([look], timeout=BRIEF_S)
        found = known if known and not look.done() else await asyncio.shield(look)
        if found is not None:
            found.used_at = time.monotonic()
        return found

    def _in_use(self, text: str) -> LiveSpace | None:
        """Return a known space if the thread refreshes it."""
        known = self._live.get(text)
        if known is None or self._thread is None:
            return None
        return known if time.monotonic() - known.used_at <= IN_USE_S else None

    async def load_now(self, text: str) -> LiveSpace | None:
        """Return a space after a look at the store that begins now, as `load`."""
        name = SpaceName.parse(text)
        if name is None:
            return None
        found = await asyncio.shield(asyncio.wrap_future(self._start_now(name, text)))
        if found is not None:
            found.used_at = time.monotonic()
        return found

    def refresh(self) -> None:
        """Look at the spaces in use; called by the thread."""
        since = time.monotonic() - IN_USE_S
        used = [space for space in list(self._live.values()) if space.used_at >= since]
        if used:
            try:
                self._look([(space.name, space.text) for space in used])
            except Exception as error:
                if not self._setup.is_away(error):
                    raise
                logger.warning("mocks: the store is away; spaces are served as they were")
                report_error()

    def _is_over(self) -> bool:
        if not self._ended.wait(REFRESH_S):
            return False
        self._setup.disconnect()
        return True

    def forget(self, text: str) -> None:
        with self._lock:
            self._live.pop(text, None)

    def _start(self, name: SpaceName, text: str) -> Future[LiveSpace | None]:
        with self._lock:
            running = self._loading.get(text)
            if running is not None:
                return running
            if len(self._loading) >= MAX_WAITING:
                raise SpacesBusy("too many mock spaces are being loaded; try again")
            future = self._loading[text] = self._open_pool().submit(self._load, name, text)
            return future

    def _start_now(self, name: SpaceName, text: str) -> Future[LiveSpace | None]:
        with self._lock:
            if self._looking >= MAX_WAITING:
                raise SpacesBusy("too many ask whether mocks are ready; try again")
            look = self._open_pool().submit(self._look_at_one, name, text)
            self._looking += 1
        look.add_done_callback(self._end_look)
        return look

    def _end_look(self, _look: object) -> None:
        with self._lock:
            self._looking -= 1

    def _open_pool(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, "mock-space")
        return self._pool

    def _load(self, name: SpaceName, text: str) -> LiveSpace | None:
        try:
            if text not in self._live and time.monotonic() - self._away_at < REFUSED_S:
                raise SpacesUnavailable("the datastore does not answer; try again")
            return self._look_at_one(name, text)
        finally:
            with self._lock:
                self._loading.pop(text, None)

    def _look_at_one(self, name: SpaceName, text: str) -> LiveSpace | None:
        known = self._live.get(text)
        try:
            self._look([(name, text)])
        except Exception as error:
            if not self._setup.is_away(error):
                raise
            if known is None:
                raise SpacesUnavailable("the datastore does not answer; try again") from error
            return known
        finally:
            self._setup.disconnect()
        return self._live.get(text)

    def _look(self, pairs: Iterable[tuple[SpaceName, str]]) -> None:
        """Take in what the sources and the store say of these spaces."""
        ticket, now = next(self._tickets), time.monotonic()
        by_kind: dict[str, list[tuple[SpaceName, str]]] = {}
        for name, text in pairs:
            by_kind.setdefault("suite" if name.is_shared else "run", []).append((name, text))
        try:
            self._setup.connect()
            # first, because it is one read: sources may make several, each of which waits
            resets = self._setup.resets([text for each in by_kind.values() for _, text in each])
            for kind, named in by_kind.items():
                self._look_at_source(self._setup.source_of(kind), named, resets, ticket, now)
        except Exception as error:
            if self._setup.is_away(error):
                self._away_at = time.monotonic()
            raise
        self._away_at = float("-inf")

    def _look_at_source(
        self,
        source: SpaceSource | None,
        named: Sequence[tuple[SpaceName, str]],
        resets: Mapping[str, Resets],
        ticket: int,
        now: float,
    ) -> None:
        names = [name for name, _ in named]
        generations = source.generations(names) if source else {}
        for name, text in named:
            generation = generations.get(name)
            space = None
            if source is not None and generation is not None:
                space = self._current(source, name, text, generation)
            if space is not None:
                self._apply_resets(space, resets.get(text, {}))
            self._keep(text, space, ticket, now)

    def _current(
        self, source: SpaceSource, name: SpaceName, text: str, generation: str
    ) -> LiveSpace | None:
        """Return the space as it is known if it is of this generation, else a new one."""
        known = self._live.get(text)
        if known is not None and known.generation == generation:
            return known
        key = (name.suite_id, generation)
        with self._lock:
            content = self._contents.get(key)
        if content is None:
            content = source.load(name)
            if content is None:
                return None
            self._keep_content((name.suite_id, content.generation), content)
        made = LiveSpace(
            name=name,
            text=text,
            compiled=self._setup.compile(content, name),
            generation=content.generation,
            weight=_weight(content),
        )
        if known is not None:
            made.used_at, made.ticket, made.resets = known.used_at, known.ticket, known.resets
        return made

    def _keep_content(self, key: tuple[str, str], content: SpaceContent) -> None:
        """Keep a content for other spaces that have the same."""
        with self._lock:
            self._contents[key] = content
            weight = sum(map(_weight, self._contents.values()))
            while len(self._contents) > _MAX_CONTENTS or weight > MAX_BYTES:
                weight -= _weight(self._contents.popitem(last=False)[1])

    def _keep(self, text: str, space: LiveSpace | None, ticket: int, now: float) -> None:
        with self._lock:
            known = self._live.get(text)
            if known is not None and known.ticket > ticket:
                return  # somebody has looked later
            if space is None:
                self._live.pop(text, None)
                if len(self._absent) >= _MAX_ABSENT:
                    self._absent.clear()
                self._absent[text] = now + ABSENT_S
                return
            self._absent.pop(text, None)
            space.ticket, space.checked_at = ticket, now
            self._live[text] = space
            self._drop_excess(text)

    def _drop_excess(self, kept: str) -> None:
        weight = sum(space.weight for space in self._live.values())
        while len(self._live) > 1 and (len(self._live) > MAX_SPACES or weight > MAX_BYTES):
            oldest = min(
                (space for space in self._live.values() if space.text != kept),
                key=lambda space: space.used_at,
            )
            weight -= oldest.weight
            del self._live[oldest.text]

    def _apply_resets(self, space: LiveSpace, resets: Resets) -> None:
        """Empty what was reset since the last look; a failure is repeated at the next one."""
        new = {surface: n for surface, n in resets.items() if space.resets.get(surface, 0) < n}
        state = self._setup.state
        if new and state is not None and state.apply_resets(space.text, new):
            space.resets.update(new)


def require_space(name: SpaceName, space: LiveSpace | None) -> LiveSpace:
    """Return the space that was found; raise SuiteNotFound, or SpaceNotActive for that of a run."""
    if space is None:
        raise SuiteNotFound(name.suite_id) if name.is_shared else SpaceNotActive(name.execution_id)
    return space


def _weight(content: SpaceContent) -> int:
    return sum(map(len, content.files.values()))


def find_source(kind: str) -> SpaceSource | None:
    """Return the registered source of a kind, None where no app has it."""
    if kind not in space_sources:
        return None
    return space_sources[kind]
