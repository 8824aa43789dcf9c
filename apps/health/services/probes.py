"""The probes of the platform itself: store, cache, telemetry, background loops, broker."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from apps.health.domain.probes import Probe, ProbeResult
from apps.operations.api import (
    broker_url,
    celery_application,
    db_driver,
    is_store_writable,
    redis_url,
)
from kernel import background, telemetry

if TYPE_CHECKING:
    from redis import Redis

_BROKER_S: Final = 1
_migrated: set[str] = set()


def check_datastore() -> ProbeResult:
    """A row written, read and removed; every migration applied; MongoDB only as a replica set."""
    if db_driver() == "mongo" and not _is_replica_set():
        return ProbeResult(
            ready=False, detail="a standalone MongoDB has no transactions; a replica set is needed"
        )
    if waiting := _migrations_waiting():
        return ProbeResult(ready=False, detail=f"{waiting} migrations are not applied")
    kept = is_store_writable()
    return ProbeResult(ready=kept, detail="" if kept else "what was written cannot be read")


def check_cache() -> ProbeResult:
    url = redis_url()
    if not url:
        return ProbeResult(ready=True, detail="not configured", disabled=True)
    from redis import RedisError  # slow to import: only where there is one

    try:
        _redis(url).ping()
    except RedisError as error:
        return ProbeResult(ready=False, detail=f"no answer ({type(error).__name__})")
    return ProbeResult(ready=True)


def check_telemetry() -> ProbeResult:
    if not telemetry.is_configured():
        return ProbeResult(ready=True, detail="not configured", disabled=True)
    if not telemetry.last_export_succeeded():
        return ProbeResult(ready=False, detail="the last export failed")
    return ProbeResult(ready=True)


def check_background() -> ProbeResult:
    """Every background thread and task of this process runs."""
    if failing := background.failing():
        return ProbeResult(ready=False, detail=f"failed: {', '.join(failing)}")
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
