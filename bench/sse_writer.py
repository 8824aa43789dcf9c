"""`python -m bench.sse_writer TOPIC LINES_PER_S SECONDS`: log lines into a run's stream.

Eight sources, chunks each 50 ms, as supervisors send them. `-` as topic: into Redis, a message a
line, for the peer.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator

TICK_S = 0.05


def ticks(lines_per_s: int, seconds: float) -> Iterator[list[bytes]]:
    """The lines of each tick, in time; late ones are made up for."""
    began, made = time.monotonic(), 0
    while (elapsed := time.monotonic() - began) < seconds:
        due = int((elapsed + TICK_S) * lines_per_s) - made
        yield [line(made + n) for n in range(due)]
        made += due
        time.sleep(max(0.0, began + elapsed + TICK_S - time.monotonic()))


def line(number: int) -> bytes:
    text = f"~ request {number} answered 200 in 12 ms for /api/v1/orders/{number % 997}"
    return (
        b'{"source":"api-%d","timestamp":"00:12","time":"2026-01-02T03:04:05.123Z","level":"info",'
        b'"kind":"output","text":"%b","attempt":1,"t":%d}'
        % (number % 8, text.encode(), time.monotonic_ns())
    )


def into_store(topic: str) -> Callable[[list[bytes]], None]:
    import django

    django.setup()
    from apps.streams import api as streams

    def write(lines: list[bytes]) -> None:
        share = (len(lines) + 7) // 8
        parts = [lines[start : start + share] for start in range(0, len(lines), share or 1)]
        streams.append([streams.Batch(topic, f"api-{n}", part) for n, part in enumerate(parts)])

    return write


def into_redis() -> Callable[[list[bytes]], None]:
    import redis

    client = redis.Redis.from_url(f"redis://{os.environ['REDIS_ADDR']}/0")

    def write(lines: list[bytes]) -> None:
        pipeline = client.pipeline(transaction=False)
        for one in lines:
            pipeline.publish("peer", one)
        pipeline.execute()

    return write


def main() -> None:
    topic, lines_per_s, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    write = into_redis() if topic == "-" else into_store(topic)
    print("ready", flush=True)
    sys.stdin.readline()
    made = 0
    for lines in ticks(lines_per_s, seconds):
        write(lines)
        made += len(lines)
    print(made, flush=True)


if __name__ == "__main__":
    main()
