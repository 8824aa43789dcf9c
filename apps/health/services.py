"""The readiness report, and the probes of the platform: store, cache, telemetry, loops, broker.

Every probe runs on a thread of its own, has 2 s, and its answer is kept for 1 s.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from contextvars import Context
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypedDict

from django.db import close_old_connections, connection
from django.db.migrations.executor import MigrationExecutor

from apps.health.domain.probes import Probe, ProbeResult, probes
from apps.observability.api import RequestContext, enter_request
from apps.operations.api import (
    HALF_RESTORED,
    broker_url,
    celery_application,
    db_driver,
    is_draining,
    is_half_restored,
    is_store_away,
    is_store_writable,
    living_servers,
    redis_url,
)
from kernel import background, clock, telemetry
from kernel.errors import PlatformError

if TYPE_CHECKING:
    from redis import Redis


logger = logging.getLogger("partita.system")

TIMEOUT_S: Final = 2.0
KEPT_S: Final = 1.0
_BROKER_S: Final = 1
_migrated: set[str] = set()


class SubsystemNotFound(PlatformError):
    code = "subsystem_not_found"


class Component(TypedDict):
    """A subsystem on the wire; `status` is ready, degraded, not_ready or disabled."""

    name: str
    status: str
    ready: bool
    required: bool
    detail: str
    checkedAt: str
    durationMs: int


class ReadinessReport(TypedDict):
    """The body of `/readyz`; `status` is ready or not_ready."""

    status: str
    checkedAt: str
    components: list[Component]


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """What a probe said, when, and until when that holds (monotonic seconds)."""

    component: Component
    holds_until: float


class ProbeRunner:
    """Asks the probes. One that hangs is asked again only when it has returned."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(max_workers=32, thread_name_prefix="probe")
        self._under_way: dict[str, Future[tuple[ProbeResult, float]]] = {}
        self._answers: dict[str, ProbeAnswer] = {}
        self._lock = threading.Lock()

    def components(self, names: list[str]) -> list[Component]:
        """The bare components, in the order of `names`; takes TIMEOUT_S at most."""
        deadline = time.monotonic() + TIMEOUT_S
        futures = {name: self._ask(probes[name]) for name in names if not self._is_kept(name)}
        for name, future in futures.items():
            self._answers[name] = self._settle(probes[name], future, deadline)
        return [self._answers[name].component for name in names]

    def forget(self) -> None:
        self._answers.clear()

    def _is_kept(self, name: str) -> bool:
        answer = self._answers.get(name)
        return answer is not None and time.monotonic() < answer.holds_until

    def _ask(self, probe: Probe) -> Future[tuple[ProbeResult, float]]:
        with self._lock:
            running = self._under_way.get(probe.name)
            if running is None or running.done():
                running = self._threads.submit(Context().run, _time_probe, probe)
                self._under_way[probe.name] = running
            return running

    def _settle(
        self, probe: Probe, future: Future[tuple[ProbeResult, float]], deadline: float
    ) -> ProbeAnswer:
        try:
            result, seconds = future.result(max(0.0, deadline - time.monotonic()))
        except Late:
            result, seconds = ProbeResult(ready=False, detail="no answer in time"), TIMEOUT_S
        return ProbeAnswer(_component(probe, result, seconds), time.monotonic() + KEPT_S)


def _time_probe(probe: Probe) -> tuple[ProbeResult, float]:
    enter_request(RequestContext())  # somebody waits: the store has to answer in time
    close_old_connections()
    started = time.monotonic()
    try:
        result = probe.check()
    except Exception as error:  # noqa: BLE001 - the edge: what a probe raises means not ready
        result = _report_failure(probe, error)
    finally:
        close_old_connections()
    return result, time.monotonic() - started


def _report_failure(probe: Probe, error: Exception) -> ProbeResult:
    if is_store_away(error):
        logger.warning("the probe %s failed: the store does not answer", probe.name)
        return ProbeResult(ready=False, detail="the datastore does not answer")
    logger.warning("the probe %s failed", probe.name, exc_info=error)
    return ProbeResult(ready=False, detail=f"the check failed ({type(error).__name__})")


def _component(probe: Probe, result: ProbeResult, seconds: float) -> Component:
    return {
        "name": probe.name,
        "status": _status(probe, result),
        "ready": result.ready or result.disabled,
        "required": probe.required,
        "detail": result.detail,
        "checkedAt": clock.rfc3339(clock.now()),
        "durationMs": round(seconds * 1000),
    }


def _status(probe: Probe, result: ProbeResult) -> str:
    if result.disabled:
        return "disabled"
    if not result.ready:
        return "not_ready" if probe.required else "degraded"
    return "degraded" if result.degraded else "ready"


runner: Final = ProbeRunner()


def readiness_report() -> ReadinessReport:
    """The body of `/readyz`; `status` is `not_ready` while draining, too."""
    components = runner.components(list(probes))
    stopped = any(entry["required"] and not entry["ready"] for entry in components)
    return {
        "status": "not_ready" if stopped or is_draining() else "ready",
        "checkedAt": clock.rfc3339(clock.now()),
        "components": components,
    }


def subsystem_report(name: str) -> Component:
    """Return the report of one component; raise SubsystemNotFound."""
    if name not in probes:
        raise SubsystemNotFound(f"there is no subsystem {name!r}; known: {', '.join(probes)}")
    return runner.components([name])[0]


def check_datastore() -> ProbeResult:
    """A row written, read and removed; every migration applied; MongoDB only as a replica set."""
    if db_driver() == "mongo" and not _is_replica_set():
        return ProbeResult(
            ready=False, detail="a standalone MongoDB has no transactions; a replica set is needed"
        )
    if waiting := _migrations_waiting():
        return ProbeResult(ready=False, detail=f"{waiting} migrations are not applied")
    if is_half_restored():
        return ProbeResult(ready=False, detail=HALF_RESTORED)
    kept = is_store_writable()
    return ProbeResult(ready=kept, detail="" if kept else "what was written cannot be read")


def check_cache() -> ProbeResult:
    """Redis answers; without one, several control-plane processes have mock state apart."""
    url = redis_url()
    if not url:
        servers = _known_servers()
        if servers > 1:
            return ProbeResult(
                ready=False,
                detail=f"each of {servers} control-plane processes keeps the state of mocks for"
                " itself; they share it through Redis",
            )
        return ProbeResult(ready=True, detail="not configured", disabled=True)
    from redis import RedisError  # slow to import: only where there is one

    try:
        _redis(url).ping()
    except RedisError as error:
        return ProbeResult(
            ready=False,
            detail=f"no answer ({type(error).__name__}); each process keeps the state of mocks"
            " for itself",
        )
    return ProbeResult(ready=True)


def _known_servers() -> int:
    """Return how many servers live, 0 while the store cannot say."""
    try:
        return living_servers()
    except Exception as error:
        if not is_store_away(error):
            raise
        return 0


def check_telemetry() -> ProbeResult:
    if not telemetry.is_configured():
        return ProbeResult(ready=True, detail="not configured", disabled=True)
    if not telemetry.last_export_succeeded():
        return ProbeResult(ready=False, detail="the last export failed")
    return ProbeResult(ready=True)


def check_background() -> ProbeResult:
    """Every background thread and task of this process runs and finds the store."""
    if failing := background.failing():
        return ProbeResult(ready=False, detail=f"failed: {', '.join(failing)}")
    if degraded := background.degraded_loops():
        return ProbeResult(ready=True, degraded=True, detail=f"degraded: {', '.join(degraded)}")
    return ProbeResult(ready=True)


def check_broker() -> ProbeResult:
    """Celery's broker takes a connection; its messages are hints, so nothing stops without it."""
    if broker_url().startswith("memory:"):
        return ProbeResult(ready=True, detail="inside this process", disabled=True)
    from kombu.exceptions import KombuError  # slow to import: only where there is a broker

    with celery_application().connection_for_write() as broker:
        errors: tuple[Any, ...] = (*broker.connection_errors, *broker.channel_errors)
        try:
            broker.ensure_connection(max_retries=1, timeout=_BROKER_S)
            broker.channel()  # opening it asks the server
        except (KombuError, *errors) as error:
            return ProbeResult(ready=False, detail=f"no answer ({type(error).__name__})")
    return ProbeResult(ready=True)


def _migrations_waiting() -> int:
    """Asked until nothing waits: a process never sees its migrations undone."""
    if connection.alias in _migrated:
        return 0
    executor = MigrationExecutor(connection)
    waiting = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    if not waiting:
        _migrated.add(connection.alias)
    return waiting


def _is_replica_set() -> bool:
    connection.ensure_connection()
    hello = connection.connection.admin.command("hello")
    return "setName" in hello or hello.get("msg") == "isdbgrid"  # or a router of a sharded cluster


@lru_cache(maxsize=1)
def _redis(url: str) -> Redis:
    from redis import Redis

    return Redis.from_url(url, socket_timeout=1.5, socket_connect_timeout=1.5)


DATASTORE: Final = Probe("datastore", required=True, check=check_datastore)
CACHE: Final = Probe("cache", required=False, check=check_cache)
TELEMETRY: Final = Probe("telemetry", required=False, check=check_telemetry)
BACKGROUND: Final = Probe("background", required=True, check=check_background)
BROKER: Final = Probe("broker", required=False, check=check_broker)
