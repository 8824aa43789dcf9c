"""Heal states: in memory while this watcher leads, stored for the next leader."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Protocol

from django.db import Error as StoreError

from kernel import clock
from sync_stack.configuration.secrets import SecretError
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.drift import HealState, as_sane
from sync_stack.core.sink import SinkError
from sync_stack.orchestrator.api import drift, drift_records
from sync_stack.sinks.limits import Timeouts
from sync_stack.sinks.mongo import MongoOptions
from sync_stack.sinks.mongo import client as mongo_client
from sync_stack.sinks.open_sinks import Resolve
from sync_stack.sinks.redis import RedisOptions
from sync_stack.sinks.redis import client as redis_client

log: Final = logging.getLogger("partita.sync.watcher")
REDIS_KEY: Final = "partita:watcher:state"
COLLECTION: Final = "partita_watcher"
_TIMES: Final = ("next_heal_at", "last_heal_at", "last_poll_at")


class HealStateStore(Protocol):
    """Store one JSON object for each target. Raises StoreError or SinkError."""

    def load(self, unit_ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]: ...

    def save(self, unit_id: str, content: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...


class PrimaryHealStateStore:
    def load(self, unit_ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        return drift.heal_states(unit_ids)

    def save(self, unit_id: str, content: Mapping[str, Any]) -> None:
        drift_records.save_heal_state(unit_id, content)

    def close(self) -> None:
        """Do nothing: the connection belongs to the process."""


class RedisHealStateStore:
    def __init__(self, client: Any) -> None:
        self._client = client

    def load(self, unit_ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        with redis_client.translate_errors():
            texts = self._client.hmget(REDIS_KEY, list(unit_ids)) if unit_ids else []
        found = zip(unit_ids, texts, strict=True)
        return {name: read for name, raw in found if (read := _object(raw)) is not None}

    def save(self, unit_id: str, content: Mapping[str, Any]) -> None:
        with redis_client.translate_errors():
            self._client.hset(REDIS_KEY, unit_id, json.dumps(content))

    def close(self) -> None:
        self._client.close()


class MongoHealStateStore:
    def __init__(self, client: Any, database: str) -> None:
        self._client = client
        self._rows = client[database][COLLECTION]

    def load(self, unit_ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        with mongo_client.translate_errors():
            rows = list(self._rows.find({"_id": {"$in": list(unit_ids)}}))
        found = {str(row["_id"]): _object(row.get("state")) for row in rows}
        return {name: content for name, content in found.items() if content is not None}

    def save(self, unit_id: str, content: Mapping[str, Any]) -> None:
        with mongo_client.translate_errors():
            self._rows.replace_one(
                {"_id": unit_id}, {"_id": unit_id, "state": json.dumps(content)}, upsert=True
            )

    def close(self) -> None:
        self._client.close()


def open_heal_state_store(bundle: Bundle, resolve: Resolve) -> HealStateStore:
    """Open the store that the bundle names. Raises SinkError, SecretError."""
    name = bundle.watcher_state_datasource
    if not name:
        return PrimaryHealStateStore()
    datasource = bundle.datasource(name)
    timeouts = Timeouts.of(datasource)
    match datasource.options:
        case RedisOptions() as options:
            return RedisHealStateStore(redis_client.connect(options, timeouts, resolve))
        case MongoOptions() as options:
            return MongoHealStateStore(
                mongo_client.connect(options, timeouts, resolve), options.database
            )
        case _:
            return PrimaryHealStateStore()


def _object(raw: Any) -> Mapping[str, Any] | None:
    try:
        content = json.loads(raw) if raw is not None else None
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


class HealStates:
    """The heal states of all targets; a failed store is logged once and fails no poll."""

    def __init__(
        self, open_heal_state_store: Callable[[], HealStateStore], poll_interval_s: float
    ) -> None:
        self._open = open_heal_state_store
        self._poll_interval_s = poll_interval_s
        self._known: dict[str, HealState] = {}
        self._store: HealStateStore | None = None
        self._failing = False

    def of(self, unit_id: str) -> HealState:
        return self._known.get(unit_id, HealState())

    def learn(self, unit_ids: Sequence[str], now: datetime) -> None:
        """Load the stored states of targets that are not in memory."""
        new = [name for name in unit_ids if name not in self._known]
        if not new:
            return
        contents = self._try(lambda store: store.load(new), {})
        for name in new:
            heal_state = heal_state_of(contents.get(name, {}))
            self._known[name] = as_sane(heal_state, now, self._poll_interval_s)

    def put(self, unit_id: str, heal_state: HealState) -> None:
        self._known[unit_id] = heal_state
        self._try(lambda store: store.save(unit_id, content_of(heal_state)), None)

    def forget(self) -> None:
        """Drop the states in memory, which another leader may have changed."""
        self._known.clear()

    def reopen(self) -> None:
        """Open the store again at the next use: the bundle has changed."""
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def _try(self, act: Callable[[HealStateStore], Any], otherwise: Any) -> Any:
        try:
            self._store = self._store or self._open()
            result = act(self._store)
        except (StoreError, SinkError, SecretError) as error:
            if not self._failing:
                log.warning(
                    "the watcher's state cannot be stored: %s",
                    type(error).__name__,
                    extra={"event": "watcher_state_failed"},
                )
            self._failing = True
            return otherwise
        self._failing = False
        return result


def content_of(heal_state: HealState) -> dict[str, object]:
    times = {name: getattr(heal_state, name) for name in _TIMES}
    return {
        "heals": heal_state.heals,
        "failures": heal_state.failures,
        "clean_polls": heal_state.clean_polls,
        "flapping": heal_state.flapping,
        "episodes": [clock.rfc3339(at) for at in heal_state.episodes],
        **{name: clock.rfc3339(at) for name, at in times.items() if at is not None},
    }


def heal_state_of(content: Mapping[str, Any]) -> HealState:
    """Return the stored state; an invalid one counts as none."""
    try:
        times = {name: clock.parse_rfc3339(content[name]) for name in _TIMES if name in content}
        numbers = {name: int(content.get(name, 0)) for name in ("heals", "failures", "clean_polls")}
        episodes = tuple(clock.parse_rfc3339(text) for text in content.get("episodes", ()))
    except (ValueError, TypeError):
        return HealState()
    flapping = content.get("flapping") is True
    return replace(HealState(flapping=flapping, episodes=episodes), **numbers, **times)  # type: ignore[arg-type]
