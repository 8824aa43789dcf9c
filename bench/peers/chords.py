"""The same DAG as Celery does it: a chord a level, on Redis, with a worker process of its own.

`python -m bench.peers.chords` starts the worker, then answers {"levels", "width"} → {"seconds"}.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from celery import Celery, chain, chord

from bench.stand import answer, questions

REDIS = f"redis://{os.environ['TEST_REDIS_ADDR']}/3"
app = Celery("chords", broker=REDIS, backend=REDIS)
app.conf.update(
    worker_prefetch_multiplier=50,
    result_expires=600,
    broker_connection_retry_on_startup=True,
    task_default_queue="bench-chords",
)


@app.task(name="bench.step")
def step() -> None:
    """A step that does nothing."""


@app.task(name="bench.barrier")
def barrier(_results: list[None]) -> None:
    """What follows a level waits for it."""


def run(levels: int, width: int) -> float:
    """Seconds from the first message to the result of the last level."""
    began = time.perf_counter()
    chords = [chord([step.si() for _ in range(width)], barrier.s()) for _ in range(levels)]
    chain(*chords).apply_async().get(timeout=300)
    return time.perf_counter() - began


def main() -> None:
    command = [
        sys.executable, "-m", "celery", "-A", "bench.peers.chords", "worker",
        "--pool", "threads", "--concurrency", "16", "--loglevel", "ERROR",
        "--without-gossip", "--without-mingle", "--without-heartbeat",
    ]  # fmt: skip
    worker = subprocess.Popen(command, stdout=sys.stderr)
    try:
        step.delay().get(timeout=60)
        for question in questions():
            answer(seconds=run(question["levels"], question["width"]))
    finally:
        worker.terminate()
        worker.wait(20)


if __name__ == "__main__":
    main()
