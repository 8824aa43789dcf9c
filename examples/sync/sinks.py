"""Where the settings go: a file, and Redis where a redis-server program is installed."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from examples.sync.programs import Programs, free_ports

ENVIRONMENT = "production"


class Sink(Protocol):
    """`name` and `datasource`: of the bundle, the second in CUE; `place` is for the user."""

    name: str
    rule: str
    destination: str
    place: str
    datasource: str

    def start(self) -> None: ...
    def is_ready(self) -> bool: ...
    def read(self) -> dict[str, str]: ...
    def change_by_hand(self, key: str, value: str) -> None: ...
    def close(self) -> None: ...


class FileSink:
    name, rule, destination = "file", "settings-to-file", "{env}-{repo}.json"

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"{ENVIRONMENT}-shop.json"
        self.place = f"the file {self._path.name}"
        self.datasource = f'{{file: {{root: "{folder}"}}}}'

    def start(self) -> None:
        """A file needs no program."""

    def is_ready(self) -> bool:
        return True

    def read(self) -> dict[str, str]:
        return dict(json.loads(self._path.read_text())) if self._path.exists() else {}

    def change_by_hand(self, key: str, value: str) -> None:
        self._path.write_text(json.dumps(self.read() | {key: value}), encoding="utf-8")

    def close(self) -> None:
        """The file goes with its folder."""


class RedisSink:
    """A server of its own: loopback, with a password, nothing kept on disk."""

    name, rule, destination = "redis", "settings-to-redis", "{env}-{repo}"

    def __init__(self, programs: Programs, *, password: str) -> None:
        [self._port] = free_ports(1)
        self._programs, self._password = programs, password
        self._client = redis.Redis(
            host="127.0.0.1",
            port=self._port,
            password=password,
            decode_responses=True,
            retry=Retry(NoBackoff(), 0),  # the demo asks again by itself
        )
        self._hash = f"{ENVIRONMENT}-shop"
        self.place = f"the Redis hash {self._hash}"
        self.datasource = (
            f'{{redis: {{host: "127.0.0.1", port: {self._port}, '
            'password: {env: "REDIS_PASSWORD"}}}'
        )

    def start(self) -> None:
        """Settings go to its standard input: the password is not an argument."""
        lines = ["bind 127.0.0.1", f"port {self._port}", 'save ""', "appendonly no"]
        lines += [f"dir {self._programs.folder}", f"requirepass {self._password}"]
        self._programs.start("redis", ["redis-server", "-"], {}, stdin="\n".join(lines).encode())

    def is_ready(self) -> bool:
        with suppress(redis.ConnectionError):
            return bool(self._client.ping())
        return False

    def read(self) -> dict[str, str]:
        values: dict[str, str] = self._client.hgetall(self._hash)  # type: ignore[assignment]
        return values

    def change_by_hand(self, key: str, value: str) -> None:
        self._client.hset(self._hash, key, value)

    def close(self) -> None:
        self._client.close()
