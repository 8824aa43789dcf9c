"""Events of runs: docs/tables/events.md."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from apps.executions.domain.events import KINDS, LEVELS, REPEATABLE, RUN_EVENT_STATUS
from documentation.markdown import code, codes, table
from documentation.pages import ROOT

STEP_EVENTS: Final[Mapping[str, str]] = {
    "queued": "the step waits for a place on its backend",
    "claimed": "a runner, a worker or the control plane took the step",
    "waiting": "its container cannot start yet: why, in the words of the cluster",
    "image-pull": "its image is pulled",
    "running": "its container started",
    "adopted": "another supervisor, or the same one after a restart, goes on with it",
    "healthy": "it ended as expected, or the service is ready",
    "failed": "it failed; `reason` says why",
    "continued": "it failed, and the run goes on: `continue_on_failure`",
    "retry": "an attempt failed, and another one follows",
    "requeued": "its supervisor was lost, and it waits for another one",
    "reset": "a service that it ran against was replaced; it runs again",
    "reset-mocks": "the state of mocks was emptied for it",
    "skipped": "it does not run; `reason` says why",
    "canceled": "it was canceled",
    "artifacts": "files were kept, or a declared file is missing",
}
RUN_EVENTS: Final[Mapping[str, str]] = {
    "queued": "the run was accepted",
    "booting": "it has a place, and its steps start",
    "canceling": "somebody canceled it; its steps are stopped",
    "kept": "its environment stays after the end, and until when",
    "healthy": "it ended, and no step failed that must not",
    "failed": "it failed; `reason` says why",
    "canceled": "it was canceled, and its environment is gone",
}
FRAMES: Final[Mapping[str, str]] = {
    "(none)": "a record of the run: an event, or a log line",
    "gap": "records `from` to `to` are not there any more",
    "end": "the run is over, with its `status` and the id of its last record; do not reconnect",
    "stream": "on a shared stream: the frames after it belong to the stream of this position",
    "over": "on a shared stream: a stream that is over",
    "refused": "on a shared stream: a stream that was refused, with the problem",
}


def page() -> str:
    levels = ", ".join(map(code, LEVELS))
    kinds = codes(kind for kind in KINDS if kind)
    statuses = codes(dict.fromkeys(RUN_EVENT_STATUS.values()))
    return (
        "# Events of a run\n\n"
        "A run writes events, and log lines that repeat them. The API streams both as server-sent events; "
        "[the reference](../reference/control-plane.md#112-bodies) has their fields. An event's id is `STEP-EVENT`, "
        "from attempt 2 on `STEP-EVENT-2`; one that comes again within an attempt ends in `.2`, `.3`.\n\n"
        f"## Of a step\n\n{table(('Event', 'Meaning', 'Again in one attempt'), step_rows())}\n"
        f"## Of the run\n\nTheir source is `execution`; their status is one of {statuses}.\n\n"
        f"{table(('Event', 'Meaning'), ((code(f'execution-{name}'), words) for name, words in RUN_EVENTS.items()))}\n"
        f"## Log lines\n\nA line has a level ({levels}) and a kind: none for one that repeats an event, otherwise {kinds}.\n\n"
        "## Frames of a stream\n\nThe field `event` of a frame of `text/event-stream`:\n\n"
        f"{table(('Frame', 'Meaning'), ((code(name), words) for name, words in FRAMES.items()))}"
    )


def step_rows() -> Iterator[tuple[str, str, str]]:
    for name, words in STEP_EVENTS.items():
        yield code(name), words, "yes" if name in REPEATABLE else ""


def emitted_names(folder: Path = ROOT / "apps" / "executions") -> set[str]:
    """Return the names of events that the code emits by a literal."""
    return {
        argument.value
        for path in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path)))
        if isinstance(node, ast.Call)
        for argument in _name_argument(node)
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


def _name_argument(call: ast.Call) -> list[ast.expr]:
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    place = {"EventText": 0, "emit_step_event": 1}.get(name)
    return [] if place is None else call.args[place : place + 1]
