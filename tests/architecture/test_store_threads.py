"""Threads outside of requests that read the store drop connections that a restart broke.

A request's connections are Django's own affair. On any other thread, a dead connection stays until
somebody closes it: a loop there reads nothing any more after a restart of PostgreSQL.
"""

from __future__ import annotations

import ast

from tests.architecture.sources import modules, trees

CONNECTED = {"then_disconnect", "work_connected"}  # they see to the connection of their thread
# What runs on a thread and needs no help: why.
WITHOUT_STORE = {
    "apps/accounts/lifespan.py: _seed_and_purge": "closes old connections itself",
    "apps/executions/services/artifact_sweeper.py: require_artifact_storage": "no rows",
    "apps/http/middleware/compression.py: compress_string": "bytes only",
    "apps/http/views.py: _find": "files only",
    "apps/http/views.py: _find_documentation": "files only",
    "apps/mocks/components.py: close": "ends scripts and the journal in Redis",
    "apps/mocks/components.py: stop": "ends a thread",
    "mocks/engine/graphql.py: _build_schema": "files only",
    "mocks/grpc/messages.py: convert": "messages only",
    "mocks/grpc/methods.py: _names": "suites_with_protos releases and disconnects",
    "mocks/grpc/methods.py: compile_protos": "a child process",
    "mocks/journal/redis.py: _clear": "Redis only",
    "mocks/journal/redis.py: newest": "Redis only",
    "mocks/state/redis.py: run_from_thread": "Redis only",
    "apps/mocks/lifespan.py: open": "the proxy's client only",
    "mocks/proxies/lazy.py: open": "imports the proxy's client",
    "mocks/standalone/inspection_routes.py: verify": "entries in memory only",
    "mocks/scripts/pool.py: ScriptProcess": "a child process",
    "apps/oci/services/packages.py: _unpack": "bytes only",
    "apps/operations/lifespan.py: close": "ends a thread",
    "apps/operations/lifespan.py: join": "ends a thread",
    "apps/operations/lifespan.py: shutdown": "ends a listener",
    "apps/operations/lifespan.py: start_telemetry": "exporters only",
    "apps/operations/lifespan.py: stop": "ends a thread",
    "apps/operations/lifespan.py: stop_telemetry": "exporters only",
    "apps/profiles/lifespan.py: join": "waits for a thread",
    "apps/streams/services/responses.py: flush": "Redis only",
    "apps/workers/control_plane/in_process.py: stop": "ends a thread",
}
SEES_TO_IT = (
    "release_stale_connection",
    "then_disconnect",
    "close_old_connections",
    "on_store_thread",
)
# Pools of threads whose module sees to no connection: why.
POOLS_WITHOUT_STORE = {
    "apps/health/views.py": "the threads of the probes see to it",
    "mocks/spaces.py": "`connect` and `disconnect` of its setup do",
    "apps/platform_settings/services/manager_cache.py": "secret managers only",
    "apps/suites/evaluation/library.py": "files only",
}


def test_what_asyncio_runs_on_threads_sees_to_its_connection() -> None:
    found = set()
    for path, tree in trees("apps", "mocks"):
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and name_of(call.func) == "to_thread" and call.args:
                callee = name_of(call.args[0])
                if callee not in CONNECTED:
                    found.add(f"{path}: {callee}")

    assert found - WITHOUT_STORE.keys() == set(), "run it by apps.streams.api.on_store_thread"
    assert WITHOUT_STORE.keys() - found == set(), "no longer there"


def test_pools_of_threads_see_to_their_connections() -> None:
    found = {
        path
        for path, text in modules("apps", "mocks")
        if "ThreadPoolExecutor(" in text and not any(name in text for name in SEES_TO_IT)
    }

    assert found - POOLS_WITHOUT_STORE.keys() == set()
    assert POOLS_WITHOUT_STORE.keys() - found == set(), "no longer there"


def name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
