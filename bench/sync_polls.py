"""`python -m bench.sync_polls`: the watcher's cycles one after another, see `bench.sync_watch`."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import django
import psutil

from bench.stand import answer, questions


def main() -> None:
    django.setup()
    from sync_stack.configuration.conf import process_environment
    from sync_stack.configuration.opened import open_configuration
    from sync_stack.core.bundle.secret_use import Process
    from sync_stack.watcher.conf import read_settings
    from sync_stack.watcher.process import Watcher

    settings = read_settings(process_environment())
    configuration = open_configuration(settings.bundle, Process.WATCHER)

    async def serve() -> None:
        watcher = Watcher(settings, configuration)
        datasources = {rule.datasource for rule in configuration.bundle.rules}
        for question in questions():
            answer(**await _polled(watcher, sorted(datasources), question["rounds"]))
        await watcher.channel.close(1.0)
        await watcher.threads.close(5.0)

    asyncio.run(serve())
    configuration.close()


async def _polled(watcher: Any, datasources: list[str], rounds: int) -> dict[str, Any]:
    me = psutil.Process()
    used, started = sum(me.cpu_times()[:2]), time.perf_counter()
    for _ in range(rounds):
        for datasource in datasources:
            await watcher.poller.cycle(datasource)
    return {
        "reads": rounds * len(watcher.looker.facts),
        "s": time.perf_counter() - started,
        "cpu_s": sum(me.cpu_times()[:2]) - used,
        "megabytes": me.memory_info().rss / 2**20,
    }


if __name__ == "__main__":
    main()
