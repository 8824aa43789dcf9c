"""The same DAG as a Prefect 3 flow: tasks of a level wait for those of the one before.

Runs in a virtual environment of its own, with its own server (SQLite); knows nothing of ours:
reads {"levels", "width"} a line from stdin, answers {"seconds"}.
"""

from __future__ import annotations

import json
import sys
import time

from prefect import flow, get_run_logger, task
from prefect.task_runners import ThreadPoolTaskRunner


@task
def step() -> None:
    get_run_logger().info("a line")


@flow(task_runner=ThreadPoolTaskRunner(max_workers=16))
def dag(levels: int, width: int) -> None:
    before: list[object] = []
    for _ in range(levels):
        before = [step.submit(wait_for=before) for _ in range(width)]
    for future in before:
        future.wait()


def main() -> None:
    dag(1, 1)  # starts the server
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        began = time.perf_counter()
        dag(question["levels"], question["width"])
        print(json.dumps({"seconds": time.perf_counter() - began}), flush=True)


if __name__ == "__main__":
    main()
