"""The suites of this process from all sources, read again when they change."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from django.db import DatabaseError

from apps.suites.domain.definition import Suite, suite_of
from apps.suites.domain.dependencies import split_reference
from apps.suites.profiles import profile_join
from apps.suites.sources import SourcedSuite, SuiteSource, sources
from kernel.errors import PlatformError
from kernel.ids import shorten

log: Final = logging.getLogger("partita.suites")
SLOW_S: Final = 1.0
REST_S: Final = 5.0
RECENT_S: Final = 1.0
LISTED_S: Final = 30.0  # for so long, what no source says has changed is not listed again
_LONGEST_ID: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    suite_id: str
    sourced: SourcedSuite
    stamp: Hashable
    suite: Suite


class _Source:
    """One source with what it had last."""

    def __init__(self, name: str, source: SuiteSource) -> None:
        self.name = name
        self.source = source
        self.problem = ""
        self._last: Sequence[SourcedSuite] = ()
        self._rests_until = 0.0

    def suites(self, *, rests: bool) -> Sequence[SourcedSuite]:
        """Return what the source has, or had when it last could say so.

        With `rests`, a source that failed or took a second is not asked again for 5 s.
        """
        started = time.monotonic()
        if rests and started < self._rests_until:
            return self._last
        try:
            self._last = self.source.suites()
            self.problem = ""
        except Exception as error:  # noqa: BLE001 - a plug-in: the other sources go on
            self._note_failure(error, is_news=rests)
        if self.problem or time.monotonic() - started > SLOW_S:
            self._rests_until = time.monotonic() + REST_S
        return self._last

    def _note_failure(self, error: Exception, *, is_news: bool) -> None:
        said = error.detail if isinstance(error, PlatformError) else type(error).__name__
        if said != self.problem:  # once, not at each request
            log.log(
                logging.WARNING if is_news else logging.DEBUG,
                "The suites of the source %s cannot be listed: %s",
                self.name,
                said,
                exc_info=error,
            )
        self.problem = said


class _Unknown:
    """The token of a source that could not say: equal to no other."""

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = object.__hash__


class SuiteIndex:
    """The suites of every source, each under an id of its own. It is thread-safe.

    `rests` spares servers the wait for a source that does not answer (see `_Source.suites`).
    """

    def __init__(self) -> None:
        self.rests = False
        self._focus: frozenset[str] | None = None
        self._lock = threading.Lock()
        self._sources: tuple[_Source, ...] = ()
        self._known: dict[tuple[str, str], _Known] = {}
        self._current: dict[str, SourcedSuite] = {}
        self._suites: tuple[Suite, ...] = ()
        self._tokens: list[Hashable] = []
        self._checked_at = 0.0
        self._listed: dict[str, SourcedSuite] = {}  # by id, also what is not read

    def focus(self, references: Collection[str]) -> None:
        """Read only the suites that are named, by id or repository, and those that they import.

        For commands, which end before anybody asks for another one. An import that names a
        repository reads each suite of the workspace whose files hold that name.
        """
        wanted = {split_reference(each).repository for each in references}
        self._focus = frozenset(wanted)
        while True:
            suites = self.suites()
            declared = (each for suite in suites for each in suite.dependencies.entries.values())
            wanted |= {split_reference(each.ref).repository for each in declared}
            unknown = wanted - self._listed.keys()
            found = wanted | {
                suite_id
                for suite_id, sourced in self._listed.items()
                if unknown and (sourced.may_be is None or sourced.may_be(unknown))
            }
            if found <= self._focus:
                return
            self._focus |= found

    def read_all(self) -> None:
        """Read every suite again, after `focus`."""
        self._focus = None

    def suites(self) -> tuple[Suite, ...]:
        """Return the suites by id; the same tuple as before if nothing has changed.

        Their profiles are those in force: stored ones over those of the files.
        """
        started, tokens = time.monotonic(), self._read_tokens()
        listed: dict[str, SourcedSuite] = {}
        known: dict[tuple[str, str], _Known] = {}
        for source, sourced in self._iterate_sourced():
            suite_id = _free_id(sourced, listed)
            listed[suite_id] = sourced
            if self._focus is None or suite_id in self._focus or sourced.keep_id is not None:
                known[source.name, sourced.key] = self._read(source, sourced, suite_id)
        read = sorted((each.suite for each in known.values()), key=lambda suite: suite.suite_id)
        found = tuple(profile_join.join_profiles(read))
        with self._lock:
            self._known, self._tokens, self._checked_at = known, tokens, started
            self._current = {each.suite_id: each.sourced for each in known.values()}
            self._listed = listed
            last = self._suites
            same = len(found) == len(last) and all(
                new is old for new, old in zip(found, last, strict=True)
            )
            self._suites = last if same else found
            return self._suites

    def holds(self, suites: tuple[Suite, ...], suite_ids: Iterable[str]) -> bool:
        """Return whether `suites` is still what `suites()` gives, as far as some of them go.

        Whether the others have changed was looked at within the last second. Never true for
        commands, which look at everything.
        """
        recent = self.rests and time.monotonic() - self._checked_at < RECENT_S
        if not recent or suites is not self._suites or self._read_tokens() != self._tokens:
            return False
        return all(self._is_current(suite_id) for suite_id in suite_ids)

    def current(self, suite_ids: Collection[str]) -> dict[str, Suite]:
        """Return those of the suites that exist, with the content that they have now.

        Looks at their own files only, unless a source has changed its list, or one of them is not
        listed and nobody has looked within the last second. Commands look at everything.
        """
        listed = {each.suite_id: each for each in self._suites if each.suite_id in suite_ids}
        age = time.monotonic() - self._checked_at
        holds = age < (LISTED_S if len(listed) == len(set(suite_ids)) else RECENT_S)
        if not (holds and self.rests and self._has_same_lists(suite_ids)):
            listed = {each.suite_id: each for each in self.suites() if each.suite_id in suite_ids}
        return listed

    def _has_same_lists(self, suite_ids: Iterable[str]) -> bool:
        if self._read_tokens()[1:] != self._tokens[1:]:  # the first one is of the profiles
            return False
        return all(self._is_current(each) for each in suite_ids if each in self._current)

    def _is_current(self, suite_id: str) -> bool:
        sourced = self._current.get(suite_id)
        return sourced is not None and (sourced.is_current is None or sourced.is_current())

    def _read_tokens(self) -> list[Hashable]:
        """Return the tokens of the profiles and the sources.

        A source that cannot say makes every list a new one.
        """
        found: list[Hashable] = [profile_join.token()]
        for source in self._open_sources():
            try:
                found.append(source.source.token())
            except Exception as error:
                log.debug("The source %s has no token", source.name, exc_info=error)
                found.append(_Unknown())
        return found

    def find(self, reference: str) -> Suite | None:
        """Ask the sources for a suite that they do not list; raise PlatformError."""
        for source in self._open_sources():
            try:
                found = source.source.find(reference)
            except DatabaseError as error:
                log.debug("The source %s cannot be asked", source.name, exc_info=error)
                continue
            if found is not None:
                suite_id = _free_id(found, self._ids_of_others(source.name, found))
                return profile_join.join_profiles([suite_of(found.read(suite_id))])[0]
        return None

    def _ids_of_others(self, source_name: str, found: SourcedSuite) -> set[str]:
        """Return the ids that listed suites have, but for another version of this one."""
        return {
            each.suite_id
            for (name, key), each in self._known.items()
            if (name, key) != (source_name, found.listed_as)
        }

    def ids(self) -> list[str]:
        """Return the ids of all suites: those of the workspace first, those of registries last."""
        return [*self._listed]

    def key_of(self, suite_id: str) -> str:
        """Return the key that a listed suite has in its source, "" if it is gone."""
        sourced = self._current.get(suite_id)
        return sourced.key if sourced else ""

    def _open_sources(self) -> tuple[_Source, ...]:
        with self._lock:
            if not self._sources:
                made = {name: sources[name]() for name in sources}
                opened = [_Source(name, source) for name, source in made.items()]
                self._sources = tuple(sorted(opened, key=lambda each: each.source.rank))
            if profile_join.files_only:
                return tuple(each for each in self._sources if not each.source.reads_store)
            return self._sources

    def _iterate_sourced(self) -> Iterator[tuple[_Source, SourcedSuite]]:
        for source in self._open_sources():
            for sourced in source.suites(rests=self.rests):
                yield source, sourced

    def _read(self, source: _Source, sourced: SourcedSuite, suite_id: str) -> _Known:
        stamp = sourced.stamp()
        before = self._known.get((source.name, sourced.key))
        if before and before.suite_id == suite_id and before.stamp == stamp:
            return before
        suite = suite_of(sourced.read(suite_id))
        if sourced.keep_id is not None:
            sourced.keep_id(suite_id)
        return _Known(suite_id=suite_id, sourced=sourced, stamp=stamp, suite=suite)


def _free_id(sourced: SourcedSuite, taken: Collection[str]) -> str:
    others = (f"{sourced.ids[-1]}-{number}" for number in itertools.count(2))
    free = next(each for each in itertools.chain(sourced.ids, others) if each not in taken)
    return free if len(free) <= _LONGEST_ID else shorten(free, limit=_LONGEST_ID)
