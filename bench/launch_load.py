"""500 launches in a minute at `up` on SQLite, beside processes that keep the cores busy.

python -m bench launch_load             --quick: 100 launches in 12 s, printed only

Launches come at even intervals, from accounts that each make 25 a minute. Every
one must be accepted and end Healthy: a store that is busy queues who writes, it refuses nobody.
"""

from __future__ import annotations

import math
import re
import secrets
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from bench.report import is_quick, publish
from bench.stand import busy_processes
from tests.support.processes import until
from tests.support.up import Up

A_SECOND: Final = 500 / 60
BUSY: Final = 8  # processes that only count
CLIENTS: Final = 64
A_MINUTE: Final = 25  # launches of one account, of the 30 that it may make
SIGN_UP: Final = """\
from apps.accounts.services.sign_up import sign_up
from apps.accounts.services.token_pairs import issue_tokens
for number in range({count}):
    mail = f"ci{{number}}@example.org"
    user = sign_up(full_name=f"Ci {{number}}", email=mail, password="{password}")
    print("token", issue_tokens(user).token)
"""
ENDED_WITHIN_S: Final = 600.0
SUITE: Final = """\
load("@partita/runtime", "task")

task.run("say", command = ["true"])
"""
COLUMNS: Final = ("launches", "busy processes", "accepted", "refused", "p50 s", "p95 s", "max s")


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    seconds: float
    run_id: str


def make_accounts(up: Up, count: int) -> list[str]:
    """Return the access tokens of new accounts, each with a workspace of its own."""
    script = SIGN_UP.format(count=count, password=f"{secrets.token_urlsafe(12)}-1aA")
    made = up.manage("shell", "-c", script, AUTH_SIGNUP_ENABLED="true")
    tokens = re.findall(r"^token (\S+)$", made.stdout, re.MULTILINE)
    assert len(tokens) == count, made.stderr
    return tokens


def launch_all(up: Up, count: int) -> list[Answer]:
    """Launch at even intervals; the answers in the order of the launches."""
    tokens = make_accounts(up, math.ceil(count / A_MINUTE))
    client = httpx.Client(base_url=f"{up.url}/api/v1", timeout=60)
    began = time.monotonic()

    def launch(number: int) -> Answer:
        time.sleep(max(0.0, began + number / A_SECOND - time.monotonic()))
        sent = time.perf_counter()
        bearer = {"Authorization": f"Bearer {tokens[number % len(tokens)]}"}
        answer = client.post("/executions", json={"suiteId": "one"}, headers=bearer)
        seconds = time.perf_counter() - sent
        run_id = (
            str(answer.json().get("id", "")) if answer.status_code == httpx.codes.CREATED else ""
        )
        return Answer(answer.status_code, seconds, run_id)

    with client, ThreadPoolExecutor(CLIENTS) as threads:
        return list(threads.map(launch, range(count)))


def wait_until_ended(up: Up, answers: Sequence[Answer]) -> Counter[str]:
    """Return how many runs ended in which status."""
    ids = [answer.run_id for answer in answers if answer.run_id]
    until(
        lambda: up.detail(ids[-1])["status"] in ("Healthy", "Failed", "Canceled"),
        within_s=ENDED_WITHIN_S,
        what="the last run is over",
        each_s=1,
    )
    return Counter(up.wait_for(each, within_s=ENDED_WITHIN_S)["status"] for each in ids)


def measure(count: int, busy: int) -> tuple[list[object], bool]:
    """Return a row, and whether every launch was accepted and ended Healthy."""
    with tempfile.TemporaryDirectory(prefix="partita-launches-") as folder:
        suite = Path(folder) / "suites" / "one"
        suite.mkdir(parents=True)
        (suite / "suite.star").write_text(SUITE)
        environment = {"UP_DEMO": "0", "LOCAL_RUNTIME": "process", "SUITES_DIR": str(suite.parent)}
        up = Up(Path(folder) / "up", **environment)
        try:
            up.start()
            with busy_processes(busy):
                answers = launch_all(up, count)
            ended = wait_until_ended(up, answers)
        finally:
            up.end()
    seconds = sorted(answer.seconds for answer in answers)
    accepted = sum(answer.status == httpx.codes.CREATED for answer in answers)
    print(Counter(answer.status for answer in answers), dict(ended), flush=True)
    row = [count, busy, accepted, count - accepted, round(statistics.median(seconds), 2)]
    row += [round(seconds[int(len(seconds) * 0.95)], 2), round(seconds[-1], 2)]
    return row, accepted == count == ended["Healthy"]


def main() -> int:
    count = 100 if is_quick() else 500
    measured = [measure(count, busy) for busy in (0, BUSY)]
    right = all(right for _row, right in measured)
    publish(
        "launch_load",
        "`up` on SQLite, 500 launches a minute of a suite of one step that runs as a process, "
        "alone and beside processes that only count. Right: every launch is accepted, and every "
        "run ends Healthy.",
        COLUMNS,
        [row for row, _right in measured],
        "Every launch was accepted and ended Healthy." if right else "WRONG: see the table.",
    )
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
