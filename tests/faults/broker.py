"""A Redis of its own for a broker, which a test stops, freezes and empties."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Final

import redis

from tests.support import servers
from tests.support.processes import Process, until

FAULTS: Final = ("stop", "freeze", "flush")


class Broker:
    """`with Broker(folder) as broker:` runs it; `faults` counts what was done to it."""

    def __init__(self, folder: Path) -> None:
        self.port = servers.free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.url = f"redis://{self.address}/0"
        command = servers.redis_command(self.port)
        assert command, "redis-server is not installed"
        self._process = Process("broker", command, {}, folder / "broker.log")
        self.faults = 0

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.end()

    def start(self) -> None:
        self._process.start()
        until(lambda: servers.listens(self.port), within_s=30, what="the broker listens")

    def stop(self) -> None:
        """What was queued is lost: it keeps nothing on disk."""
        self._process.kill()

    def freeze(self) -> None:
        self._process.freeze()

    def go_on(self) -> None:
        self._process.go_on()

    def flush(self) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.flushall()

    def begin(self, fault: str) -> None:
        """`stop` and `freeze` last until `end`; `flush` is over at once."""
        self.faults += 1
        {"stop": self.stop, "freeze": self.freeze, "flush": self.flush}[fault]()

    def end(self, fault: str) -> None:
        if fault == "stop":
            self.start()
        elif fault == "freeze":
            self.go_on()

    def disturb(self, chance: random.Random, over: threading.Event) -> None:
        """One fault after another until `over`; the broker answers when it returns."""
        while not over.wait(chance.uniform(0.5, 3)):
            fault = chance.choice(FAULTS)
            self.begin(fault)
            over.wait(chance.uniform(0.5, 12))
            self.end(fault)

    def wait_answering(self) -> None:
        def answers() -> bool:
            with redis.Redis.from_url(self.url, socket_timeout=1) as client:
                try:
                    return bool(client.ping())
                except redis.RedisError:
                    return False

        until(answers, within_s=30, what="the broker answers")
