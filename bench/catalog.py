"""`python -m bench catalog [--quick]`: how fast a large registry is synchronized."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from bench import stand
from bench.catalog_registry import TAGS, fill
from bench.report import end_in_order, is_quick, publish
from tests.support import registries

REPOSITORIES: Final = 200 if is_quick() else 1000
AWAY_MS: Final = 10
COLUMNS: Final = ("how", "registry", "s", "CPU s", "pulled", "MB")
HERE: Final = "on this machine"
GOAL_SERIAL: Final = 5.0  # of a registry that is away: there the client waits, here it works
GOAL_UNCHANGED: Final = 10.0
FLOOR: Final = 1.0  # of a registry on this machine, whose own work both wait for
FLAT_MB: Final = 15
LATER: Final = 5  # more unchanged synchronizations, for the memory


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, away_s: float) -> None:
    while data := await reader.read(65536):
        if away_s:
            await asyncio.sleep(away_s)
        writer.write(data)
    writer.close()


async def _line(target: str, away_s: float) -> asyncio.Server:
    host, _, port = target.rpartition(":")

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, int(port))
        pumps = _pump(reader, back, 0), _pump(there, writer, away_s)
        await asyncio.gather(*pumps, return_exceptions=True)

    return await asyncio.start_server(connected, "127.0.0.1", 0)


@contextmanager
def delayed(target: str, away_ms: float) -> Iterator[str]:
    """A line to the registry on which every answer takes that long; yields its address."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    starting = asyncio.run_coroutine_threadsafe(_line(target, away_ms / 1000), loop)
    try:
        yield f"127.0.0.1:{starting.result(10).sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)


@contextmanager
def child(folder: Path, url: str, dsn: str) -> Iterator[stand.Child]:
    """A process with a store of its own, for which the registry is called R."""
    folder.mkdir()
    (folder / "suites").mkdir()
    file = folder / "configuration.yaml"
    settings = stand.environment(folder, dsn=dsn, PLATFORM_SETTINGS_FILE=str(file))
    entry = {
        "registryId": "R", "name": "R", "provider": "Generic OCI", "registryUrl": url,
        "allowLocalNetwork": True,
    }  # fmt: skip
    file.write_text(json.dumps({"registries": [entry]}))
    try:
        with stand.Child(
            [sys.executable, "-m", "bench.catalog_child"], settings, folder / "child.log"
        ) as process:
            yield process
    finally:
        if dsn:
            stand.drop_database(settings, dsn)


def measured(folder: Path, url: str, where: str, store: str, dsn: str) -> tuple[list[Any], str]:
    """Rows and a verdict of one registry and one store."""
    with child(folder, url, dsn) as process:
        serial = process.ask(serial=url)
        asking = process.ask(unchanged=url)
        first = process.ask(sync="R")
        second = process.ask(sync="R")
        background = process.ask(due="R")
        later = [process.ask(sync="R") for _ in range(LATER)]
    assert first["pulled"] == serial["pulled"] == REPOSITORIES, (first, serial)
    assert first["errors"] == second["errors"] == 0
    assert background["synced"] == 1
    rows = [
        ["one request at a time: everything, nothing stored", where, *_cells(serial)],
        ["one request at a time: tags and digests", where, *_cells(asking)],
        [f"first synchronization, {store}", where, *_cells(first)],
        [f"second, asked for, {store}", where, *_cells(second)],
        [f"third, in the background, {store}", where, *_cells(background)],
    ]
    faster = serial["seconds"] / first["seconds"]
    asked = asking["seconds"] / second["seconds"]
    unchanged = asking["seconds"] / background["seconds"]
    is_away = where != HERE
    goal, goal_unchanged = (GOAL_SERIAL, GOAL_UNCHANGED) if is_away else (FLOOR, FLOOR)
    grown = later[-1]["mb"] - second["mb"]
    verdict = (
        f"{store}, {where}: {faster:.1f} times as fast as one request at a time"
        f" (goal {goal:g}): {_met(faster >= goal)};"
        f" unchanged, beside a client that asks for the same one request at a time,"
        f" {asked:.1f} times as fast when asked for, {unchanged:.1f} times in the background"
        f" (goal {goal_unchanged:g}): {_met(min(asked, unchanged) >= goal_unchanged)};"
        f" memory {grown:+.0f} MB over {LATER} more (flat: {FLAT_MB}): {_met(grown <= FLAT_MB)}"
    )
    return rows, verdict


def _cells(result: dict[str, Any]) -> list[Any]:
    return [result["seconds"], result["cpu"], result.get("pulled", ""), round(result["mb"])]


def _met(is_met: bool) -> str:  # noqa: FBT001 - a word for it
    return "met" if is_met else "MISSED"


def main() -> None:
    end_in_order()
    rows: list[list[Any]] = []
    verdicts: list[str] = []
    stores = {"SQLite": ""}
    if dsn := os.environ.get("TEST_POSTGRES_DSN"):
        stores["PostgreSQL"] = dsn
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        fill(folder / "registry/storage", REPOSITORIES)
        registry = stack.enter_context(registries.plain(folder / "registry"))
        away = stack.enter_context(delayed(registry.host, AWAY_MS))
        places = {HERE: registry.url, f"{AWAY_MS} ms away": f"http://{away}"}
        for store, address in stores.items():
            for where, url in places.items():
                own = folder / f"{store}-{len(rows)}"
                found, verdict = measured(own, url, where, store, address)
                rows += found
                verdicts.append(verdict)
    publish(
        "catalog",
        f"A docker-registry with {REPOSITORIES:,} repositories of {len(TAGS)} tags, whose newest "
        "versions are pulled, checked, unpacked and stored; beside it a client (httpx, kept "
        "connection) that does the same one request at a time, and stores nothing, and one that "
        "asks for tags and digests alone, as a synchronization of an unchanged registry does.",
        COLUMNS,
        rows,
        "; ".join(verdicts),
    )


if __name__ == "__main__":
    main()
