"""Random histories on real Git, real Redis and real processes, whose workers are killed meanwhile.

python -m tests.faults.sync_real --histories 300 --seed 7          needs TEST_REDIS_ADDR

The broker is a Redis of its own, which is stopped, frozen and emptied meanwhile.

A wave of histories shares the processes and a store; each has a repository and keys of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.report import end_in_order, publish
from tests.faults.broker import Broker
from tests.faults.sync_git import GONE, MAIN, BareRepository, FlakyGit
from tests.faults.sync_processes import SyncProcesses
from tests.support.git_server import served

SEED: Final = int(os.environ.get("PARTITA_FAULT_SEED", random.randrange(10**6)))
WAVE: Final = 25
STEPS: Final = 8
SETTLE_S: Final = 300.0
POISON: Final = '{"k1": '
FILE: Final = "app.json"
ENDED: Final = {"SUCCEEDED", "FAILED", "DEAD"}
ENVIRONMENTS: Final = {MAIN: "production", "refs/heads/develop": "staging"}
BRANCHES: Final = (MAIN, MAIN, "refs/heads/develop", "refs/heads/feature-a")
COLUMNS: Final = (
    "histories",
    "steps",
    "202",
    "refused",
    "killed",
    "broker faults",
    "tasks",
    "right",
    "wrong",
    "settled in s",
    "min",
)


@dataclass
class History:
    """One repository and its destinations. `accepted`: the tasks of answers 202."""

    stack: SyncProcesses
    repository: BareRepository
    chance: random.Random
    posts: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    late: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)
    answers: Counter[int] = field(default_factory=Counter)
    theirs: dict[tuple[str, str], str] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)  # refs that were told of
    drifts: int = 0
    told: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.repository.name

    def place(self, ref: str) -> str:
        env = ENVIRONMENTS.get(ref) or ref.removeprefix("refs/heads/")
        return f"{self.stack.prefix}-{self.name.partition('/')[2]}-{env}"

    def step(self) -> None:
        """One thing of many."""
        steps = [self.push] * 6 + [self.rewind, self.delete, self.redeliver, self.lose]
        steps += [self.by_hand, self.foreign, self.deliver_late]
        chosen = self.chance.choice(steps) if self.repository.heads else self.push
        self.told.append(chosen.__name__)
        chosen()

    def push(self) -> None:
        self._tell(*self._commit(self.chance.choice(BRANCHES), self._text()))

    def lose(self) -> None:
        """The webhook never comes; the reconcile sweep has to see it, at a ref that it knows."""
        if self.known:
            self._commit(self.chance.choice(sorted(self.known)), self._text())

    def _text(self) -> str:
        draw = self.chance.random()
        if draw < 0.08:
            return POISON
        keys = self.chance.sample(["k1", "k2", "k3", "k4", "k5", "k6", "protected"], 4)
        return "{}" if draw < 0.14 else json.dumps({key: self._value() for key in keys})

    def _value(self) -> str:
        return f"value {self.chance.randrange(6)}"

    def _commit(self, ref: str, text: str) -> tuple[str, str, str]:
        before = self.repository.heads.get(ref, GONE)
        return ref, before, self.repository.commit(ref, {FILE: text})

    def rewind(self) -> None:
        """A force push to any commit that there ever was."""
        ref = self.chance.choice(sorted(self.repository.heads))
        before, after = self.repository.heads[ref], self.chance.choice([*self.repository.trees])
        self.repository.move(ref, after)
        self._tell(ref, before, after, forced=True)

    def delete(self) -> None:
        others = sorted(self.repository.heads.keys() - {MAIN})
        if others:
            ref = self.chance.choice(others)
            before = self.repository.heads[ref]
            self.repository.move(ref, "")
            self._tell(ref, before, GONE, deleted=True)

    def _tell(self, ref: str, before: str, after: str, **more: Any) -> None:
        """At once mostly; else after what comes next."""
        repository = {"full_name": self.name}
        body = {"ref": ref, "before": before, "after": after, "repository": repository, **more}
        post = (f"{self.name}-{len(self.posts)}", body)
        self.posts.append(post)
        if self.chance.random() < 0.2:
            self.late.append(post)
        else:
            self.deliver(post)

    def deliver_late(self) -> None:
        while self.late:
            self.deliver(self.late.pop(self.chance.randrange(len(self.late))))

    def redeliver(self) -> None:
        if self.posts:
            post = self.chance.choice(self.posts)
            for _ in range(10):
                self.deliver(post, insist=False)

    def deliver(self, post: tuple[str, dict[str, Any]], *, insist: bool = True) -> None:
        """As a host with patience: again until it is taken, or was taken before."""
        delivery, body = post
        for _ in range(int(SETTLE_S)):
            if answer := self.stack.send(body, delivery):
                self.answers[answer.status_code] += 1
                if answer.status_code == 202:
                    self.accepted.add(answer.json()["task_id"])
                    self.known.add(body["ref"])
                if answer.status_code in (202, 401) or not insist:
                    return
            time.sleep(1)
        raise AssertionError(f"{delivery} is not taken: {self.answers}")

    def by_hand(self) -> None:
        """Somebody changes or removes a key of ours; seldom enough to be healed at once."""
        place = self.place(self.chance.choice(BRANCHES))
        ours = sorted(key for key in self.stack.redis.hkeys(place) if key.startswith("k"))
        if not ours or self.drifts >= 2:
            return
        self.drifts += 1
        if self.chance.random() < 0.5:
            self.stack.redis.hset(place, self.chance.choice(ours), "drifted")
        else:
            self.stack.redis.hdel(place, self.chance.choice(ours))

    def foreign(self) -> None:
        place = self.place(self.chance.choice(BRANCHES[1:3]))
        key = self.chance.choice(["x1", "x2"])
        self.theirs[place, key] = self._value()
        self.stack.redis.hset(place, key, self.theirs[place, key])

    def finish(self) -> None:
        """What was late comes; a file that cannot be read is mended, as people do."""
        self.deliver_late()
        for ref in (MAIN, *sorted(self.repository.heads.keys() - {MAIN})):
            if ref not in self.repository.heads or self._head(ref) == POISON:
                self._tell(*self._commit(ref, json.dumps({"k1": self._value(), "k2": "mended"})))
        self.deliver_late()

    def _head(self, ref: str) -> str:
        return self.repository.trees[self.repository.heads[ref]][FILE]

    def wrong(self) -> str:
        """What does not hold yet; empty when all of it does."""
        for ref in (*BRANCHES, "refs/heads/feature-a"):
            if found := self._wrong_at(ref):
                return found
        for (place, key), value in self.theirs.items():
            if self.stack.redis.hget(place, key) != value:
                return f"{key} of {place} was not ours"
        return self._wrong_tasks()

    def _wrong_at(self, ref: str) -> str:
        live = self.stack.redis.hgetall(self.place(ref))
        ours = {key: text for key, text in live.items() if not key.startswith("x")}
        if ref in self.repository.heads:
            wanted = json.loads(self._head(ref))
            kept = {"protected"} - wanted.keys()
            ours = {key: text for key, text in ours.items() if key not in kept}
            return "" if ours == wanted else f"{ref}: {ours} instead of {wanted}"
        cleaned = ref not in ENVIRONMENTS and ours.keys() - {"protected"}
        return f"{ref} is gone: {ours}" if cleaned else ""

    def _wrong_tasks(self) -> str:
        for task_id in sorted(self.accepted):
            task = self.stack.get(f"tasks/{task_id}")
            if task is None or task["state"] not in ENDED:
                return f"{task_id} is {task and task['state']}"
            if not task["message"]:
                return f"{task_id} ended without a reason"
        targets = self.stack.get("targets", repo=self.name)
        for target in targets["targets"] if targets else ():
            head = self.repository.heads.get(target["ref"], target["commit"])
            if target["commit"] != head and target["commit"] != GONE:
                return f"{target['env']} is at {target['commit']}, the head is {head}"
        return "" if targets else "no targets"


@dataclass
class Tally:
    histories: int = 0
    steps: int = 0
    accepted: int = 0
    refused: int = 0
    kills: int = 0
    broker_faults: int = 0
    tasks: int = 0
    wrong: list[str] = field(default_factory=list)
    settled_s: float = 0.0  # of the slowest wave, from when everything answers again
    seconds: float = 0.0

    def cells(self) -> list[object]:
        right = self.histories - len(self.wrong)
        counts = [self.histories, self.steps, self.accepted, self.refused, self.kills]
        counts += [self.broker_faults, self.tasks, right, len(self.wrong)]
        return [*counts, round(self.settled_s), round(self.seconds / 60, 1)]


def run(histories: int, seed: int, address: str, *, wave: int = WAVE, workers: int = 2) -> Tally:
    """Waves until all histories have been; what is wrong is told and the next wave begins."""
    tally, begun = Tally(), time.monotonic()
    for first in range(0, histories, wave):
        chance = random.Random(f"{seed} {first}")
        with tempfile.TemporaryDirectory(prefix="partita-histories-") as folder:
            git = Path(folder) / "git"
            (git / "acme").mkdir(parents=True)
            site = FlakyGit(git, chance=random.Random(chance.random()))
            with (
                served(site),
                Broker(Path(folder)) as broker,
                SyncProcesses(
                    Path(folder),
                    f"http://127.0.0.1:{site.port}",
                    address,
                    workers=workers,
                    broker_url=broker.url,
                ) as stack,
            ):
                _wave(stack, site, broker, min(wave, histories - first), chance, tally)
        tally.seconds = time.monotonic() - begun
        print(dict(zip(COLUMNS, tally.cells(), strict=True)), flush=True)
    return tally


def _wave(
    stack: SyncProcesses,
    site: FlakyGit,
    broker: Broker,
    count: int,
    chance: random.Random,
    tally: Tally,
) -> None:
    made = [
        History(stack, BareRepository(site.root, f"acme/h{number}"), random.Random(chance.random()))
        for number in range(count)
    ]
    _disturbed(made, site, stack, broker, chance)
    begun = time.monotonic()
    left = _settled(made)
    tally.settled_s = max(tally.settled_s, time.monotonic() - begun)
    tally.broker_faults += broker.faults
    tally.wrong += [f"{name}: {why}" for name, why in left.items()]
    if left:
        print(f"WRONG: {left}\n{stack.tails()}", flush=True)
    _count(made, stack, tally)


def _disturbed(
    made: Sequence[History],
    site: FlakyGit,
    stack: SyncProcesses,
    broker: Broker,
    chance: random.Random,
) -> None:
    """Steps of all histories, mixed; workers die, Git fails at times, the bundle changes once.

    The broker goes and comes back; in the end it is there.
    """
    over = threading.Event()
    moments = random.Random(chance.random())
    faults = random.Random(chance.random())

    def kill() -> None:
        while not over.wait(moments.uniform(0.5, 3)):
            stack.revive()
            stack.kill_one(moments)

    disturbing = [
        threading.Thread(target=kill),
        threading.Thread(target=broker.disturb, args=(faults, over)),
    ]
    site.failing = 0.05
    for thread in disturbing:
        thread.start()
    try:
        order = [history for history in made for _ in range(STEPS)]
        chance.shuffle(order)
        for number, history in enumerate(order):
            if number == len(order) // 2:
                stack.configure(1)
            history.step()
        site.failing = 0.0
        for history in made:
            history.finish()
    finally:
        over.set()
        for thread in disturbing:
            thread.join()


def _settled(made: Sequence[History]) -> dict[str, str]:
    """History → what is still wrong when the time is over."""
    deadline = time.monotonic() + SETTLE_S
    left = {history.name: history for history in made}
    while left and time.monotonic() < deadline:
        made[0].stack.revive()
        left = {name: history for name, history in left.items() if history.wrong()}
        time.sleep(0.5)
    return {name: f"{history.wrong()} after {history.told}" for name, history in left.items()}


def _count(made: Sequence[History], stack: SyncProcesses, tally: Tally) -> None:
    tally.histories += len(made)
    tally.steps += STEPS * len(made)
    tally.accepted += sum(history.answers[202] for history in made)
    tally.refused += sum(history.answers.total() - history.answers[202] for history in made)
    tally.tasks += sum(len(history.accepted) for history in made)
    tally.kills += stack.kills


def main() -> int:
    end_in_order()
    parser = argparse.ArgumentParser(prog="python -m tests.faults.sync_real")
    parser.add_argument("--histories", type=int, default=300)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--wave", type=int, default=WAVE, help="histories at once")
    parser.add_argument("--no-publish", dest="publish", action="store_false")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    address = os.environ["TEST_REDIS_ADDR"]
    tally = run(options.histories, options.seed, address, wave=options.wave)
    if options.publish:
        _publish(tally, options.seed)
    return 1 if tally.wrong else 0


def _publish(tally: Tally, seed: int) -> None:
    wrong = len(tally.wrong)
    publish(
        "sync-real",
        "Random histories on real Git over HTTP (one request in 20 fails), real Redis and the "
        "sync stack as processes: gateway, orchestrator, two Celery workers, watcher. kill -9 of a "
        "worker with its children, at times of the orchestrator, at random moments; pushes, "
        "rewinds, deletes, lost, late and tenfold webhooks, files empty and poisoned, drift and "
        "foreign keys by hand, a changed bundle; a broker that is stopped, frozen or emptied every "
        "few seconds, up to 12 s long. Right: every destination equals its head, "
        "nothing of others is gone, every task of a 202 has ended with a reason.",
        COLUMNS,
        [tally.cells()],
        f"Seed {seed}: {'all ended right' if not wrong else f'{wrong} ended WRONG'}.",
        command=f".venv/bin/python -m tests.faults.sync_real --seed {seed}",
    )


if __name__ == "__main__":
    sys.exit(main())
