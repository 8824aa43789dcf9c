"""`python -m bench sync_visible [--quick]`: from a push's webhook to the value in its sink.

Git over HTTP, gateway, orchestrator and watcher as processes on one machine; a file and a Redis.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from bench.report import end_in_order, is_quick, publish
from bench.sync_stand import Stand, median, met, quantile, rule, stand
from examples.sync.sinks import Sink

MEDIAN_GOAL_MS, LATE_GOAL_MS = 300, 1000
KEYS = 20
_LOOK_S = 0.002


def settings(number: int) -> str:
    return "".join(f"key{key}: value {number}\n" for key in range(KEYS))


def seen_after_ms(at: Stand, sink: Sink, number: int) -> float:
    """The webhook is sent when the push has ended, as a platform does."""
    commit = at.push(settings(number))
    started = time.perf_counter()
    task_id = at.webhook(sink, commit)
    wanted = f"value {number}"
    at.until(lambda: sink.read().get("key0") == wanted, "the value", each_s=_LOOK_S)
    taken = (time.perf_counter() - started) * 1000
    at.ended(task_id)
    return taken


def main() -> int:
    end_in_order()
    quick = is_quick()
    pushes = 8 if quick else 40
    rows: list[list[Any]] = []
    met_all = True
    with stand() as at:
        at.start(
            [rule(sink) for sink in at.sinks],
            ("orchestrator", "gateway", "watcher"),
            POLL_INTERVAL="60s",
        )
        for sink in at.sinks:
            seen_after_ms(at, sink, 0)  # the first one fetches the repository
            times = [seen_after_ms(at, sink, number) for number in range(1, pushes + 1)]
            middle, late = median(times), quantile(times, 0.95)
            goal = middle < MEDIAN_GOAL_MS and late < LATE_GOAL_MS
            met_all = met_all and goal
            rows.append([sink.name, pushes, middle, late, max(times), met(goal)])
    publish(
        "sync_visible",
        f"How long after its webhook is a push of {KEYS} changed keys visible in the sink? "
        "Git over HTTP on loopback, one delivery after another, looked at each 2 ms.",
        ("sink", "pushes", "median ms", "p95 ms", "worst ms", "goal"),
        rows,
        f"Goals: median under {MEDIAN_GOAL_MS} ms, p95 under {LATE_GOAL_MS} ms: {met(met_all)}.",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
