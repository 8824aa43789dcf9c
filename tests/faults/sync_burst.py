"""kill -9 in a burst of webhooks: what was answered 202 is applied, what was refused comes again.

python -m tests.faults.sync_burst                     needs TEST_POSTGRES_DSN and TEST_REDIS_ADDR
python -m tests.faults.sync_burst --case orchestrator-inbox --pushes 200 --seed 7
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from bench.report import end_in_order, publish
from tests.faults.burst_pushes import Push, pushes
from tests.faults.burst_stack import BurstStack, burst_stack
from tests.support.parts import address
from tests.support.processes import until

COLUMNS: Final = (
    "case",
    "sent",
    "202",
    "refused",
    "redelivered",
    "applied",
    "s after return",
    "doubles",
    "wrong",
)
ENDED_WELL: Final = ("completed", "no_changes", "superseded")
ACCEPTED: Final = 202
NO_ANSWER: Final = 0
SENDER_PATIENCE_S: Final = 10.0  # as GitHub's
PATIENCE_S: Final = 240.0
REDELIVERED_WITHIN_S: Final = 120.0
AT_ONCE: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Who is killed while pushes arrive at which gateway, and how soon all must be applied."""

    name: str
    victims: tuple[str, ...]
    gateway: str
    within_s: float

    @property
    def back_when(self) -> str:
        """The process whose return counts."""
        return self.victims[0]


CASES: Final = (
    Case(
        name="orchestrator-inbox",
        victims=("orchestrator", "worker"),
        gateway="gateway",
        within_s=60,
    ),
    Case(
        name="orchestrator",
        victims=("orchestrator", "worker"),
        gateway="plain",
        within_s=120,
    ),
    Case(name="gateway-inbox", victims=("gateway",), gateway="gateway", within_s=120),
)


@dataclass(frozen=True, slots=True)
class Moment:
    """Seconds after the first push, and until the victims are started again."""

    after_s: float
    away_s: float


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What became of one burst."""

    case: Case
    sent: int
    answers: dict[str, int] = field(default_factory=dict)  # delivery → status of the first try
    redelivered: int = 0
    applied: int = 0
    doubles: int = 0
    returned_at: float = 0.0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)

    @property
    def accepted(self) -> int:
        return sum(status == ACCEPTED for status in self.answers.values())

    @property
    def refused(self) -> dict[int, int]:
        return dict(Counter(status for status in self.answers.values() if status != ACCEPTED))

    def cells(self) -> list[Any]:
        refused = sum(self.refused.values())
        counts = [self.sent, self.accepted, refused, self.redelivered, self.applied]
        return [self.case.name, *counts, round(self.seconds, 1), self.doubles, len(self.wrong)]


class Burst:
    """One burst on a stack that serves; `run` leaves the stack serving."""

    def __init__(self, stack: BurstStack, case: Case, sent: Sequence[Push], *, rate: float) -> None:
        self._stack = stack
        self._case = case
        self._pushes = sent
        self._rate = rate
        self._prefix = sent[0].delivery.rpartition("-")[0] + "-"
        self._url = f"http://127.0.0.1:{stack.ports[case.gateway]}/webhooks/redis"
        self.outcome = Outcome(case=case, sent=len(sent))

    async def run(self, moment: Moment) -> Outcome:
        limits = httpx.Limits(max_connections=200, max_keepalive_connections=50)
        async with httpx.AsyncClient(timeout=SENDER_PATIENCE_S, limits=limits) as client:
            crash = asyncio.create_task(self._crash(moment))
            begun = time.monotonic()
            tries = []
            for number, push in enumerate(self._pushes):
                pause = begun + number / self._rate - time.monotonic()
                await asyncio.sleep(max(0.0, pause))
                tries.append(asyncio.create_task(self._first(client, push)))
            await asyncio.gather(crash, *tries)
            await self._redeliver(client)
        await asyncio.to_thread(self._settle)
        return self.outcome

    async def _crash(self, moment: Moment) -> None:
        await asyncio.sleep(moment.after_s)
        await asyncio.to_thread(self._stack.kill, *self._case.victims)
        await asyncio.sleep(moment.away_s)
        for name in self._case.victims:
            self._stack.processes[name].start()
        await asyncio.to_thread(self._await_return)

    def _await_return(self) -> None:
        name = self._case.back_when
        until(lambda: self._stack.serves(name), within_s=90, what=lambda: self._stack.tail(name))
        self.outcome.returned_at = time.monotonic()

    async def _first(self, client: httpx.AsyncClient, push: Push) -> None:
        push.move_branch()
        self.outcome.answers[push.delivery], _ = await self._post(client, push)

    async def _post(self, client: httpx.AsyncClient, push: Push) -> tuple[int, float]:
        """The status, and how long the answer asks to wait."""
        body, headers = push.request()
        try:
            response = await client.post(self._url, content=body, headers=headers)
        except httpx.TransportError:
            return NO_ANSWER, 1.0
        return response.status_code, float(response.headers.get("retry-after", 1))

    async def _redeliver(self, client: httpx.AsyncClient) -> None:
        """As somebody does who looks through the failed deliveries of a repository."""
        slots = asyncio.Semaphore(AT_ONCE)
        refused = [p for p in self._pushes if self.outcome.answers[p.delivery] != ACCEPTED]
        await asyncio.gather(*(self._again(client, push, slots) for push in refused))

    async def _again(self, client: httpx.AsyncClient, push: Push, slots: asyncio.Semaphore) -> None:
        deadline, status = time.monotonic() + REDELIVERED_WITHIN_S, NO_ANSWER
        while time.monotonic() < deadline:
            async with slots:
                status, pause = await self._post(client, push)
            if status == ACCEPTED:
                self.outcome.redelivered += 1
                return
            if 400 <= status < 500:
                break
            await asyncio.sleep(min(pause, 5.0))
        self.outcome.wrong.append(f"{push.delivery}: still {status} when redelivered")

    def _settle(self) -> None:
        """Until everything is applied: what comes too late is not lost, but told apart."""
        give_up = time.monotonic() + PATIENCE_S
        while (missing := self._missing()) and time.monotonic() < give_up:
            time.sleep(0.5)
        self.outcome.seconds = max(0.0, time.monotonic() - self.outcome.returned_at)
        self.outcome.wrong += missing[:10]
        if self.outcome.seconds > self._case.within_s:
            self.outcome.wrong.append(
                f"applied {self.outcome.seconds:.1f} s after the return of {self._case.back_when}"
            )
        self._judge()

    def _missing(self) -> list[str]:
        tasks = self._stack.tasks(self._prefix)
        lost = [push.delivery for push in self._pushes if push.delivery not in tasks]
        if not self._stack.is_quiet():  # asked last: the inbox may store a task at any moment
            return ["tasks wait or run"]
        return [f"{delivery}: no task" for delivery in lost]

    def _judge(self) -> None:
        """Every delivery has one task that ended well, and every key is written once."""
        tasks = self._stack.tasks(self._prefix)
        values = {line: self._stack.values(line.repository.name) for line in self._lines}
        for push in self._pushes:
            known = tasks.get(push.delivery, [])
            self.outcome.doubles += max(0, len(known) - 1)
            words = [task["message"] for task in known]
            if not set(words) & set(ENDED_WELL):
                self.outcome.wrong.append(f"{push.delivery}: {words}")
            elif push.key not in values[push.line]:
                self.outcome.wrong.append(f"{push.delivery}: {push.key} is not in the sink")
            else:
                self.outcome.applied += 1
        written = self._written(tasks)
        for line, found in values.items():
            if found != line.values():
                self.outcome.wrong.append(f"{line.repository.name}: not what HEAD says")
            self.outcome.doubles += max(0, written[line.repository.name] - line.length)

    @property
    def _lines(self) -> list[Any]:
        return list(dict.fromkeys(push.line for push in self._pushes))

    @staticmethod
    def _written(tasks: dict[str, list[dict[str, Any]]]) -> Counter[str]:
        """Keys that tasks say to have written, by repository."""
        counts: Counter[str] = Counter()
        for task in (task for known in tasks.values() for task in known):
            for target in task.get("result", {}).get("targets", ()):
                counts[target["repo"]] += target.get("written", 0)
        return counts


def burst(
    stack: BurstStack, case: Case, sent: Sequence[Push], moment: Moment, *, rate: float = 100.0
) -> Outcome:
    print(
        f"{case.name}: {len(sent)} pushes at {rate:g}/s, kill -9 {', '.join(case.victims)} after "
        f"{moment.after_s:.2f} s, started again {moment.away_s:.2f} s later",
        flush=True,
    )
    outcome = asyncio.run(Burst(stack, case, sent, rate=rate).run(moment))
    print(f"  first answers {dict(Counter(outcome.answers.values()))}", flush=True)
    return outcome


def main() -> int:
    end_in_order()
    options = _options()
    print(f"seed {options.seed}", flush=True)
    outcomes = run_all(options)
    wrong = [f"{each.case.name}: {line}" for each in outcomes for line in each.wrong]
    if options.publish:
        _publish(outcomes, options)
    for sentence in wrong:
        print(f"WRONG: {sentence}", file=sys.stderr)
    return 1 if wrong or any(each.doubles for each in outcomes) else 0


def run_all(options: argparse.Namespace) -> list[Outcome]:
    chosen = [case for case in CASES if not options.case or case.name in options.case]
    draw = random.Random(f"{options.seed} sync burst")
    length_s = options.pushes / options.rate
    outcomes = []
    servers = {
        "redis_address": address("TEST_REDIS_ADDR"),
        "postgres": address("TEST_POSTGRES_DSN"),
    }
    with (
        tempfile.TemporaryDirectory(prefix="partita-burst-") as folder,
        burst_stack(Path(folder), **servers) as stack,
    ):
        for case in chosen:
            moment = Moment(length_s * draw.uniform(0.2, 0.6), draw.uniform(0.2, 3.0))
            counts = {"total": options.pushes, "repositories": options.repositories}
            sent = pushes(Path(folder), name=case.name, **counts)
            outcomes.append(burst(stack, case, sent, moment, rate=options.rate))
            print("  " + ", ".join(map(str, outcomes[-1].cells())), flush=True)
        if options.keep_logs:
            _keep_logs(stack, Path(options.keep_logs))
    return outcomes


def _keep_logs(stack: BurstStack, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, process in stack.processes.items():
        (folder / f"{name}.log").write_text(process.text())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.sync_burst",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--pushes", type=int, default=1000)
    parser.add_argument("--repositories", type=int, default=10)
    parser.add_argument("--rate", type=float, default=100.0, help="pushes a second")
    parser.add_argument("--case", action="append", choices=[case.name for case in CASES])
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--keep-logs", help="folder for the logs of the processes")
    parser.add_argument("--no-publish", dest="publish", action="store_false")
    return parser.parse_args()


def _publish(outcomes: Sequence[Outcome], options: argparse.Namespace) -> None:
    wrong = sum(len(each.wrong) for each in outcomes)
    publish(
        "sync-burst",
        f"{options.pushes} signed GitHub pushes at {options.rate:g}/s to {options.repositories} "
        "repositories over git http-backend, on PostgreSQL and Redis; kill -9 in the burst of the "
        "orchestrator with its Celery worker (with and without the gateway's inbox), or of the "
        "gateway. Right: every delivery that was answered 202 has exactly one task, which ended "
        "well, its key is in the sink, written once; what was refused is accepted when "
        "redelivered. Seconds: from the moment the killed process serves again until all is "
        "applied.",
        COLUMNS,
        [each.cells() for each in outcomes],
        f"Seed {options.seed}: {'all right' if not wrong else f'{wrong} WRONG'}.",
        command=f".venv/bin/python -m tests.faults.sync_burst --seed {options.seed}",
    )


if __name__ == "__main__":
    sys.exit(main())
