"""`python -m bench sync_watch [--quick]`: what 500 watched rules cost, and whether memory grows."""

from __future__ import annotations

import re
import sys
import time
from typing import Any

import httpx

from bench.report import end_in_order, is_quick, publish
from bench.stand import Child
from bench.sync_stand import Stand, met, rule, stand
from examples.sync.sinks import ENVIRONMENT

RULES, FEW = 500, 5
SETTINGS = "platform_site.settings.sync"
CORE_GOAL, GROWTH_GOAL_MB = 25.0, 5.0
KEYS = 20
COLUMNS = ("watcher", "units read", "s", "CPU s", "% of a core", "MB first", "MB last")


def polls(at: Stand) -> int:
    """Reads of units so far, of all outcomes; 0 while the watcher is not there yet."""
    port = at.stack.admin_port("watcher")
    try:
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False, timeout=30).text
    except httpx.ConnectError:
        return 0
    found = re.findall(r"^svc_watcher_poll_total\{.*\} ([0-9.e+]+)$", text, re.MULTILINE)
    return round(sum(map(float, found)))


def cost(at: Stand, seconds: float) -> tuple[float, float]:
    """CPU seconds of the watcher over that long, and its memory at the end."""
    process = at.process("watcher")
    before = sum(process.cpu_times()[:2])
    time.sleep(seconds)
    return sum(process.cpu_times()[:2]) - before, megabytes(at)


def megabytes(at: Stand) -> float:
    return float(at.process("watcher").memory_info().rss / 2**20)


def synced(rules: int, at: Stand, *names: str, **variables: str) -> None:
    """All rules have one file and destinations of their own, which are written once."""
    every = [
        rule(at.redis, name=f"rule-{number}", destination_template=f"{{env}}-{number}")
        for number in range(rules)
    ]
    at.start(every, ("orchestrator", "gateway"), **variables)
    text = "".join(f"key{number}: value {number}\n" for number in range(KEYS))
    at.ended(at.webhook(at.redis, at.push(text)))
    last = f"{ENVIRONMENT}-{rules - 1}"
    if at.redis._client.hlen(last) < KEYS:  # noqa: SLF001 - another hash than the sink's own
        raise RuntimeError(f"{last} was not written")
    at.stack.start_more(names)


def of_many(rules: int, interval_s: float) -> list[Any]:
    """A whole interval of a watcher that has looked at everything once."""
    with stand() as at:
        synced(rules, at, "watcher", POLL_INTERVAL=f"{interval_s:g}s")
        at.until(lambda: polls(at) >= rules, "each rule is looked at")
        seen, first = polls(at), megabytes(at)
        used, last = cost(at, interval_s)
        share = 100 * used / interval_s
        name = f"{rules} rules each {interval_s:g} s"
        return [name, polls(at) - seen, interval_s, used, share, first, last]


def of_long(rounds: int) -> list[Any]:
    """Many polls of few rules without a pause; the first tenth warms up."""
    with stand() as at:
        synced(FEW, at)
        environment = at.stack.environment | {"DJANGO_SETTINGS_MODULE": SETTINGS}
        command = [sys.executable, "-m", "bench.sync_polls"]
        with Child(command, environment, at.folder / "polls.log") as child:
            warm = child.ask(rounds=rounds // 10)
            done = child.ask(rounds=rounds)
    name = f"{FEW} rules, {rounds:,} polls without a pause"
    share = 100 * done["cpu_s"] / done["s"]
    sizes = (warm["megabytes"], done["megabytes"])
    return [name, done["reads"], done["s"], done["cpu_s"], share, *sizes]


def main() -> int:
    end_in_order()
    quick = is_quick()
    many = of_many(100, 20) if quick else of_many(RULES, 60)
    long = of_long(200 if quick else 1000)
    share, growth = many[4], long[6] - long[5]
    publish(
        "sync_watch",
        f"What does a watcher cost that compares {RULES} Redis destinations of {KEYS} keys with "
        "Git's state once an interval, and does it grow?",
        COLUMNS,
        [many, long],
        f"{many[0]}: {share:.1f} % of a core (goal: under {CORE_GOAL:g} % for {RULES} "
        f"at 60 s: {met(share < CORE_GOAL)}); memory grew by {growth:.1f} MB (flat, under "
        f"{GROWTH_GOAL_MB:g}: {met(growth < GROWTH_GOAL_MB)}).",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
