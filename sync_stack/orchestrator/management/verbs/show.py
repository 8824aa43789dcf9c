"""`partita sync show TASK` and `watch TASK`: one task, and how it ends."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from django.core.management.base import CommandError, CommandParser

from kernel.commands import ExitCode
from kernel.durations import parse_duration_ms
from sync_stack.core.tasks import State
from sync_stack.orchestrator.domain.task_documents import StoredError, TaskRequest, TaskResult
from sync_stack.orchestrator.management.base import CommandAnswer, SyncVerb
from sync_stack.orchestrator.models import Task
from sync_stack.orchestrator.selectors import tasks
from sync_stack.orchestrator.server.documents import task_document

_POLL_S: Final = 1.0


class ShowVerb(SyncVerb):
    name = "show"
    text = "show one task: what was asked, what each target got, what went wrong"
    help = "Show one task: what was asked, what each target got, and what went wrong."
    examples = "  partita sync show 0198f0c2-7d1e-7c41-9a57-2f5d0c1e8b11"
    columns = ("REPOSITORY", "ENV", "DESTINATION", "OUTCOME", "WRITTEN", "PRUNED", "UNCHANGED")

    def add_more(self, parser: CommandParser) -> None:
        parser.add_argument("task_id", help="as history and trigger print it")

    def answer(self, options: Mapping[str, Any]) -> CommandAnswer:
        return _answer(_task(options["task_id"]))


class WatchVerb(ShowVerb):
    name = "watch"
    text = "wait for the end of a task, and show it"
    help = (
        "Wait for the end of a task, and show it. The exit code is 1 if it failed, and 13 if "
        "--timeout was reached; the task goes on."
    )
    examples = "  partita sync watch 0198f0c2-7d1e-7c41-9a57-2f5d0c1e8b11 --timeout 5m"

    def add_more(self, parser: CommandParser) -> None:
        super().add_more(parser)
        parser.add_argument("--timeout", default="10m", help="such as 90s; 10m unless given")

    def answer(self, options: Mapping[str, Any]) -> CommandAnswer:
        try:
            patience_s = parse_duration_ms(options["timeout"]) / 1000
        except ValueError as error:
            raise CommandError(f"--timeout: {error}", returncode=ExitCode.USAGE) from None
        deadline = time.monotonic() + patience_s
        while (task := _task(options["task_id"])).finished_at is None:
            if time.monotonic() > deadline:
                raise CommandError(
                    f"task {task.id} is {task.state} after {options['timeout']}, and goes on",
                    returncode=ExitCode.TIMEOUT,
                )
            time.sleep(_POLL_S)
        return replace(_answer(task), failure=_failure(task))


def _task(task_id: str) -> Task:
    if (task := tasks.get(task_id)) is None:
        raise CommandError(
            f"there is no task {task_id!r}: partita sync history lists them",
            returncode=ExitCode.NOT_FOUND,
        )
    return task


def _answer(task: Task) -> CommandAnswer:
    targets = TaskResult.of(task.result).targets
    rows = [
        (
            target.repo or "-",
            target.env or "-",
            target.destination or "-",
            target.error.code if target.error else target.outcome,
            target.written,
            target.pruned,
            target.unchanged,
        )
        for target in targets
    ]
    return CommandAnswer(document=task_document(task), rows=rows, notes=list(_notes(task)))


def _failure(task: Task) -> str:
    if task.state == State.SUCCEEDED:
        return ""
    error = StoredError.of(task.error)
    return f"{error.code}: {error.detail}{_place(error)}"


def _place(error: StoredError) -> str:
    return f" ({error.file}:{error.line})" if error.file else ""


def _notes(task: Task) -> Iterator[str]:
    yield f"{task.kind} task {task.id}: {task.state}, {task.message}"
    for event in TaskRequest.of(task.request).events:
        yield f"  {event.repo} {event.ref} {event.commit[:12]}".rstrip()
    if task.error:
        error = StoredError.of(task.error)
        yield f"  {error.code}: {error.detail}{_place(error)}"
    for target in TaskResult.of(task.result).targets:
        if target.error and target.destination:
            yield f"  {target.destination}: {target.error.code}"
        if target.would_prune:
            yield f"  {target.destination}: would delete {', '.join(target.would_prune)}"
