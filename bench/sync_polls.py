"""`python -m bench.sync_polls`: the watcher's cycles one after another, see `bench.sync_watch`."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import django
import psutil

from bench.stand import answer, questions

_BEAT_EACH = 20  # rounds: more often than a watcher does


def main() -> None:
    django.setup()
    from sync_stack.configuration.conf import process_environment
    from sync_stack.configuration.process_configuration import open_configuration
    from sync_stack.core.bundle.secret_use import Process
    from sync_stack.watcher.conf import read_settings
    from sync_stack.watcher.process import Watcher

    settings = read_settings(process_environment())
    configuration = open_configuration(settings.bundle, Process.WATCHER)

    async def serve() -> None:
        watcher = Watcher(settings, configuration)
        await _lead(watcher)
        datasources = {rule.datasource for rule in configuration.bundle.rules}
        for question in questions():
            answer(**await _polled(watcher, sorted(datasources), question["rounds"]))
        await watcher.channel.close(1.0)
        await watcher.threads.close(5.0)

    asyncio.run(serve())
    configuration.close()


async def _lead(watcher: Any) -> None:
    """What a watcher finds it writes down only while it leads."""
    while not watcher.leadership.is_mine:
        await watcher.threads.run(watcher.leadership.step)


async def _polled(watcher: Any, datasources: list[str], rounds: int) -> dict[str, Any]:
    me = psutil.Process()
    used, started = sum(me.cpu_times()[:2]), time.perf_counter()
    for number in range(rounds):
        if number % _BEAT_EACH == 0:
            await watcher.threads.run(watcher.leadership.step)
        for datasource in datasources:
            await watcher.poller.cycle(datasource)
    return {
        "reads": rounds * len(watcher.checker.facts),
        "s": time.perf_counter() - started,
        "cpu_s": sum(me.cpu_times()[:2]) - used,
        "megabytes": me.memory_info().rss / 2**20,
    }


if __name__ == "__main__":
    main()
