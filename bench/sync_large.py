"""`python -m bench sync_large [--quick]`: a file of 10,000 keys, unchanged and with one change."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from bench.report import end_in_order, is_quick, publish
from bench.sync_stand import Stand, median, met, rule, stand
from examples.sync.sinks import Sink

KEYS = 10_000
GOAL_S = 1.0
LOOK_S = 0.1
COLUMNS = (
    "sink",
    "push",
    "times",
    "task s (median)",
    "webhook to end s (median)",
    "keys written",
    "changes in the sink",
)


def settings(changed: int) -> str:
    """The value of one key says how often it was changed."""
    lines = [f"key{number:05}: value of {number}" for number in range(KEYS)]
    lines[KEYS // 2] += f", changed {changed}"
    return "\n".join(lines) + "\n"


def changes_of_redis(at: Stand) -> int:
    """As the server counts them."""
    return int(at.redis._client.info("persistence")["rdb_changes_since_last_save"])  # noqa: SLF001


def changes_of_file(at: Stand) -> int:
    """A file that is written, or replaced, is another one."""
    status = (at.folder / "settings" / "production-shop.json").stat()
    return hash((status.st_ino, status.st_mtime_ns))


def pushed(at: Stand, sink: Sink, push: Callable[[], str]) -> tuple[float, float, dict[str, Any]]:
    """Seconds of the task, seconds from the webhook to its end, and what it did at its target."""
    commit = push()
    started = time.perf_counter()
    task = at.ended(at.webhook(sink, commit), each_s=LOOK_S)
    taken = time.perf_counter() - started
    [target] = task["result"]["targets"]
    return task["duration_ms"] / 1000, taken, target


class Series:
    """Pushes of one kind to one sink."""

    def __init__(self, at: Stand, sink: Sink, what: str) -> None:
        self._at, self._sink, self._what = at, sink, what
        self.tasks: list[float] = []
        self.walls: list[float] = []
        self.written: list[int] = []
        self.changes: list[int] = []

    def run(self, push: Callable[[], str], times: int) -> None:
        count = changes_of_file if self._sink is self._at.file else changes_of_redis
        for _ in range(times):
            before = count(self._at) if self.tasks or self._what != "first" else 0
            task, wall, target = pushed(self._at, self._sink, push)
            after = count(self._at)
            changes = int(after != before) if self._sink is self._at.file else after - before
            self.tasks.append(task)
            self.walls.append(wall)
            self.written.append(target.get("written", 0))
            self.changes.append(changes)

    def row(self) -> list[Any]:
        known = (median(self.tasks), median(self.walls), max(self.written), max(self.changes))
        return [self._sink.name, self._what, len(self.tasks), *known]


def main() -> int:
    end_in_order()
    quick = is_quick()
    times = 3 if quick else 10
    rows: list[list[Any]] = []
    said = []
    with stand() as at:
        at.start([rule(sink) for sink in at.sinks], ("orchestrator", "gateway"))
        number = 0

        def other_file() -> str:
            nonlocal number
            number += 1
            return at.push(f"{number}\n", file="README")

        def one_key() -> str:
            nonlocal number
            number += 1
            return at.push(settings(number))

        for sink in at.sinks:
            first, same, one = (Series(at, sink, what) for what in ("first", "same", "one key"))
            first.run(one_key, 1)
            same.run(other_file, times)
            one.run(one_key, times)
            rows += [series.row() for series in (first, same, one)]
            nothing = max(same.written) == 0 and max(same.changes) == 0
            said += [
                f"{sink.name}: unchanged writes nothing {met(nothing)}, "
                f"under {GOAL_S:g} s {met(median(same.tasks) < GOAL_S)}; "
                f"one key writes one {met(set(one.written) == {1})}"
            ]
    publish(
        "sync_large",
        f"A file of {KEYS:,} keys: the first push, pushes that change another file only, pushes "
        "that change one key. Changes in Redis as the server counts them (with the record's mark "
        "beside a key); of the file: whether it was written.",
        COLUMNS,
        rows,
        "; ".join(said) + ".",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
