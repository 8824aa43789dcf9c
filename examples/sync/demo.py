"""What happens in the demo, in order: `Demo.tell`."""

from __future__ import annotations

import json
import secrets
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from examples.sync.config import FILE, REPOSITORY, config_cue
from examples.sync.git_host import GitHost
from examples.sync.programs import Programs, SyncStack
from examples.sync.sinks import FileSink, RedisSink, Sink
from examples.sync.story import StepMissed, Story

SETTINGS = "checkout:\n  currency: EUR\n  timeout: 30s\n"
VALUES = {"checkout.currency": "EUR", "checkout.timeout": "30s"}
SECRETS = ("SECRET_KEY", "GRPC_SHARED_TOKEN", "WEBHOOK_SECRET", "REDIS_PASSWORD")
KEY, BY_HAND = "checkout.timeout", "5m"


class Demo:
    """`parts` takes what must be stopped in the end."""

    def __init__(self, story: Story, folder: Path, parts: ExitStack) -> None:
        self._story = story
        self.programs = Programs(folder)
        parts.callback(self.programs.stop)
        keys = {name: secrets.token_hex(32) for name in SECRETS}
        self._git = GitHost(folder, name=REPOSITORY, secret=keys["WEBHOOK_SECRET"])
        parts.callback(self._git.stop)
        self._sinks: list[Sink] = [FileSink(folder / "settings")]
        if shutil.which("redis-server"):
            self._sinks.append(RedisSink(self.programs, password=keys["REDIS_PASSWORD"]))
        for sink in self._sinks:
            parts.callback(sink.close)
        self._config = folder / "config.cue"
        self._config.write_text(config_cue(self._git.url, self._sinks), encoding="utf-8")
        self._stack = SyncStack(self.programs, self._config, keys)
        parts.callback(self._stack.close)

    def tell(self) -> None:
        """Raises StepMissed, Interrupted."""
        self._start()
        commit = self._push()
        tasks = [self._send_webhook(sink, commit) for sink in self._sinks]
        for task_id in tasks:
            self._see_task_end(task_id)
        for sink in self._sinks:
            self._see_values(sink, f"The values are in {sink.place}")
        for sink in self._sinks:
            self._change_by_hand(sink)
        for sink in self._sinks:
            self._see_drift(sink)
        for sink in self._sinks:
            self._see_heal(sink)
        for sink in self._sinks:
            self._see_values(sink, f"The values are back in {sink.place}")

    def _start(self) -> None:
        self._story.show(self._config.read_text(encoding="utf-8"))
        with self._story.step("The store is made"):
            self._stack.migrate()
            self._story.until(lambda: self.programs.succeeded("migrate"))
        with self._story.step("Gateway, orchestrator and watcher are ready") as add:
            if len(self._sinks) == 1:
                add("no redis-server is installed: the demo goes on with the file only")
            for sink in self._sinks:
                sink.start()
                self._story.until(sink.is_ready)
            self._stack.start()
            self._story.until(self._stack.is_ready)

    def _push(self) -> str:
        with self._story.step(f"{FILE} is pushed to {REPOSITORY}") as add:
            commit = self._git.push(FILE, SETTINGS)
            add(f"main is at {commit[:12]}")
        return commit

    def _send_webhook(self, sink: Sink, commit: str) -> str:
        """The id of the task. The Git host has a webhook for each datasource."""
        path = f"/webhooks/{sink.name}"
        with self._story.step(f"The gateway takes the signed webhook {path}") as add:
            body, headers = self._git.webhook(commit)
            answer = self._stack.gateway.post(path, content=body, headers=headers)
            add(f"{answer.status_code} {answer.text}")
            if answer.status_code != 202:
                raise StepMissed("the gateway refused the webhook")
            return str(answer.json()["task_id"])

    def _see_task_end(self, task_id: str) -> None:
        with self._story.step(f"The orchestrator executes task {task_id}") as add:
            task = self._story.until(lambda: self._stack.ended_task(task_id))
            add(f"{task['state']} {task['message']}")
            if task["state"] != "SUCCEEDED":
                raise StepMissed(f"the task ended {task['state']}")

    def _see_values(self, sink: Sink, sentence: str) -> None:
        with self._story.step(sentence) as add:
            self._story.until(lambda: sink.read() == VALUES)
            add(json.dumps(sink.read()))

    def _change_by_hand(self, sink: Sink) -> None:
        with self._story.step(f"Somebody changes {KEY} by hand in {sink.place}") as add:
            sink.change_by_hand(KEY, BY_HAND)
            add(json.dumps(sink.read()))

    def _see_drift(self, sink: Sink) -> None:
        with self._story.step(f"The watcher logs drift in {sink.place}") as add:
            line = self._story.until(lambda: self._drift_line(sink.rule))
            add(f"{line['level']} {line['event']} {line['rule_id']}, changed: {line['changed']}")

    def _drift_line(self, rule: str) -> dict[str, Any] | None:
        lines = map(json.loads, self.programs.lines("watcher"))
        drift = (line for line in lines if line["event"] == "drift_detected")
        return next((line for line in drift if line["rule_id"] == rule), None)

    def _see_heal(self, sink: Sink) -> None:
        with self._story.step(f"The drift in {sink.place} is healed") as add:
            self._story.until(lambda: self._stack.drift_states().get(sink.rule) == "healed")
            add("the watcher asked the orchestrator to restore it, and read it again")
