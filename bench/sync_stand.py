"""Where the benchmarks of the configuration sync run: the real processes, Git, and their sinks."""

from __future__ import annotations

import json
import os
import secrets
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from examples.sync.config import FILE, REPOSITORY
from examples.sync.git_host import GitHost
from examples.sync.programs import Programs, SyncStack
from examples.sync.sinks import ENVIRONMENT, FileSink, RedisSink, Sink

WITHIN_S = 600.0  # the first sync of 500 rules is one task


class Stand:
    """Git host, sinks and the processes of the sync stack; `rules` are those of the bundle."""

    def __init__(self, folder: Path, parts: ExitStack) -> None:
        self.folder = folder
        self.programs = Programs(folder)
        parts.callback(self.programs.stop)
        self._secrets = {
            name: secrets.token_hex(32)
            for name in ("SECRET_KEY", "GRPC_SHARED_TOKEN", "WEBHOOK_SECRET", "REDIS_PASSWORD")
        }
        self.git = GitHost(folder, name=REPOSITORY, secret=self._secrets["WEBHOOK_SECRET"])
        parts.callback(self.git.stop)
        self.file = FileSink(folder / "settings")
        self.redis = RedisSink(self.programs, password=self._secrets["REDIS_PASSWORD"])
        self.sinks: tuple[Sink, ...] = (self.file, self.redis)
        for sink in self.sinks:
            parts.callback(sink.close)
            sink.start()
        self._parts = parts

    def start(
        self, rules: Sequence[dict[str, Any]], names: Sequence[str], **variables: str
    ) -> None:
        """The processes of these names on a new store."""
        platform = {"endpoint": self.git.url, "secret": {"env": "WEBHOOK_SECRET"}}
        bundle = {
            "platforms": [{"github": platform}],
            "datasources": [
                {"file": {"root": str(self.folder / "settings")}},
                {"redis": self._redis()},
            ],
            "rules": list(rules),
        }
        config = self.folder / "config.json"
        config.write_text(json.dumps({"bundle": bundle}))
        self.stack = _Processes(self.programs, config, self._secrets, names, variables)
        self._parts.callback(self.stack.close)
        self.stack.migrate()
        self.until(lambda: self.programs.succeeded("migrate"), "the store")
        self.stack.start()
        self.until(self.stack.is_ready, "the processes are ready")

    def _redis(self) -> dict[str, Any]:
        port = self.redis._client.connection_pool.connection_kwargs["port"]  # noqa: SLF001
        return {"host": "127.0.0.1", "port": port, "password": {"env": "REDIS_PASSWORD"}}

    def push(self, text: str, file: str = FILE) -> str:
        return self.git.push(file, text)

    def webhook(self, sink: Sink, commit: str) -> str:
        """The id of the task that the gateway answers with."""
        body, headers = self.git.webhook(commit)
        path = f"/webhooks/{sink.name}"
        answer = self.stack.gateway.post(path, content=body, headers=headers)
        if answer.status_code != 202:
            raise RuntimeError(f"{path}: {answer.status_code} {answer.text}")
        return str(answer.json()["task_id"])

    def ended(self, task_id: str, *, each_s: float = 0.02) -> dict[str, Any]:
        """The task's record. Raises RuntimeError when it did not succeed.

        Each look takes CPU from the process that executes the task.
        """
        look = partial(self.stack.ended_task, task_id)
        task: dict[str, Any] = self.until(look, "the task ends", each_s=each_s)
        if task["state"] != "SUCCEEDED":
            raise RuntimeError(f"the task ended {task}")
        return task

    def until(self, look: Callable[[], Any], what: str, *, each_s: float = 0.1) -> Any:
        """The first truthy answer. Raises TimeoutError, and when a program has failed."""
        deadline = time.monotonic() + WITHIN_S
        while not (found := look()):
            self.programs.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {WITHIN_S:g} s: {what}")
            time.sleep(each_s)
        return found

    def process(self, name: str) -> psutil.Process:
        return psutil.Process(self.programs._running[name].pid)  # noqa: SLF001


class _Processes(SyncStack):
    """Some of the stack's processes, with further settings."""

    def __init__(
        self,
        programs: Programs,
        config: Path,
        keys: dict[str, str],
        names: Sequence[str],
        variables: dict[str, str],
    ) -> None:
        super().__init__(programs, config, keys)
        rates = ("GLOBAL", "PER_IP", "PER_KEY")
        self._environment |= {f"GATEWAY_RATE_{name}": "off" for name in rates}
        self._environment |= {"LOG_LEVEL": "WARNING", **variables}
        self.NAMES = tuple(names)  # type: ignore[assignment]
        self._every_admin = self._admin
        self._admin = {name: port for name, port in self._admin.items() if name in names}

    @property
    def environment(self) -> dict[str, str]:
        """Of each of the processes."""
        return self._environment | {"PATH": os.environ["PATH"], "HOME": str(self._programs.folder)}

    def start_more(self, names: Sequence[str]) -> None:
        """Processes that were not among those of `start`."""
        for name in names:
            more = {"ADMIN_ADDR": f"127.0.0.1:{self._every_admin[name]}"}
            self._programs.manage(name, f"run_{name}", environment=self._environment | more)

    def admin_port(self, name: str) -> int:
        return self._every_admin[name]


@contextmanager
def stand() -> Iterator[Stand]:
    """When it ends all processes have ended and the folder is gone."""
    with ExitStack() as parts:
        folder = parts.enter_context(TemporaryDirectory(prefix="partita-bench-"))
        yield Stand(Path(folder), parts)


def rule(sink: Sink, **fields: Any) -> dict[str, Any]:
    """FILE of the repository, branch main, to the sink."""
    return {
        "name": sink.rule,
        "platform": "github",
        "datasource": sink.name,
        "repositories": [REPOSITORY],
        "file_name": FILE,
        "branch_map": {"main": ENVIRONMENT},
        "destination_template": sink.destination,
        **fields,
    }


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def met(goal: bool) -> str:  # noqa: FBT001 - the only thing it is about
    return "met" if goal else "MISSED"
