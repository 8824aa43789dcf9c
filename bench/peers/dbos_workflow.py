"""The same DAG as a DBOS workflow on PostgreSQL: the steps of a level run side by side.

Runs in a virtual environment of its own and knows nothing of ours: DBOS_URL names its database;
reads {"levels", "width"} a line from stdin, answers {"seconds"}. DBOS stores what each step
returned, in a transaction of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time

from dbos import DBOS, DBOSConfig


@DBOS.step()
async def step() -> str:
    return "a line"


@DBOS.workflow()
async def dag(levels: int, width: int) -> int:
    done = 0
    for _ in range(levels):
        done += len(await asyncio.gather(*(step() for _ in range(width))))
    return done


async def serve() -> None:
    await dag(1, 1)
    print(json.dumps({"ready": True}), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        question = json.loads(line)
        began = time.perf_counter()
        await dag(question["levels"], question["width"])
        print(json.dumps({"seconds": time.perf_counter() - began}), flush=True)


def main() -> None:
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": os.environ["DBOS_URL"],
        "run_admin_server": False,
        "log_level": "ERROR",
    }
    DBOS(config=config)
    DBOS.launch()
    asyncio.run(serve())


if __name__ == "__main__":
    main()
