"""Repeats: a step of an ended run that runs once more inside the kept environment.

What the run was stays as it is: a repeat has its own states, log and artifacts
(reference: control-plane 11.8).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from apps.executions.domain.states import IllegalTransition
from kernel.durations import format_duration
from kernel.errors import FieldError, InvalidInput, NotFound, PlatformError
from kernel.ids import is_env_name

REPEATS_NUDGE: Final = "repeats"  # wakes runners
MAX_ACTIVE: Final = 4  # of one kept environment, at once
MAX_REPEATS: Final = 200  # of one run, whose logs and artifacts are kept with it
MAX_COMMAND: Final = 10_000  # characters
MAX_VARIABLES: Final = 100
MAX_VALUE: Final = 32_768  # characters of the value of a variable
LEASE: Final = timedelta(seconds=15)
LOST_AFTER: Final = timedelta(seconds=30)  # after the end of the lease of a repeat
KINDS: Final = ("service", "task", "test")
_REFUSED: Final = {
    "mock": "a mock keeps serving in the kept environment; reset it on the run's page",
    "log": "a log node only writes a line",
}


class RepeatState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


class RepeatEvent(StrEnum):
    TAKEN = "taken"  # by a runner
    ENDED_WELL = "ended-well"
    FAILED = "failed"
    CANCELED = "canceled"


ACTIVE: Final = frozenset({RepeatState.QUEUED, RepeatState.RUNNING})
REPEAT_TRANSITIONS: Final[dict[tuple[RepeatState, RepeatEvent], RepeatState]] = {
    (RepeatState.QUEUED, RepeatEvent.TAKEN): RepeatState.RUNNING,
    (RepeatState.QUEUED, RepeatEvent.CANCELED): RepeatState.CANCELED,
    (RepeatState.RUNNING, RepeatEvent.ENDED_WELL): RepeatState.SUCCEEDED,
    (RepeatState.RUNNING, RepeatEvent.FAILED): RepeatState.FAILED,
    (RepeatState.RUNNING, RepeatEvent.CANCELED): RepeatState.CANCELED,
}


def advance_repeat(current: RepeatState, event: RepeatEvent) -> RepeatState:
    """Return the next state; raise IllegalTransition."""
    try:
        return REPEAT_TRANSITIONS[current, event]
    except KeyError:
        raise IllegalTransition(current=current, event=event) from None


class RepeatNotFound(NotFound):
    code = "repeat_not_found"

    def __init__(self) -> None:
        super().__init__("this execution has no such repeat")


class RepeatActive(PlatformError):
    """The step, or too much of the environment, is being repeated already."""

    code = "repeat_active"


class RepeatFinished(PlatformError):
    """The repeat is over: there is nothing to cancel."""

    code = "repeat_finished"


class RepeatUnavailable(PlatformError):
    """Steps of this run cannot be repeated: its backend, or the number of repeats."""

    code = "repeat_unavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatRequest:
    """What to run: `step` is an id or a name; `command` and `env` replace the step's own.

    `files` by their path replace those in the directory of the step.
    """

    step: str
    command: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] | None = None


def refuse_kind(step_id: str, kind: str) -> None:
    """Raise InvalidInput for a step that runs nothing of its own."""
    if kind not in KINDS:
        reason = _REFUSED.get(kind, "it runs no container")
        raise invalid_field("stepId", f"{step_id} is a {kind}: {reason}")


def check_overrides(request: RepeatRequest, reserved_prefixes: tuple[str, ...]) -> None:
    """Raise InvalidInput for a command or a variable that no step can have."""
    if len(request.command) > MAX_COMMAND:
        raise invalid_field("command", f"a command has at most {MAX_COMMAND} characters")
    if "\x00" in request.command:
        raise invalid_field("command", "a command cannot contain a NUL character")
    if len(request.env) > MAX_VARIABLES:
        raise invalid_field("env", f"at most {MAX_VARIABLES} variables can be set")
    for name, value in request.env.items():
        if problem := _variable_problem(name, value, reserved_prefixes):
            raise invalid_field(f"env/{name[:100]}", f"{name[:100]!r}: {problem}")


def _variable_problem(name: str, value: str, reserved_prefixes: tuple[str, ...]) -> str:
    if not is_env_name(name):
        return "write a name of letters, digits and underscores that begins with no digit"
    if any(name.startswith(f"{prefix}_") for prefix in reserved_prefixes):
        return "this variable is set by the platform; choose another name"
    if len(value) > MAX_VALUE:
        return f"a value has at most {MAX_VALUE} characters"
    return "a value cannot contain a NUL character" if "\x00" in value else ""


def invalid_field(pointer: str, detail: str) -> InvalidInput:
    error = FieldError(pointer=f"/{pointer}", code="invalid_value", detail=detail)
    return InvalidInput(detail, errors=[error])


def repeat_topic(repeat_id: str) -> str:
    """Return the topic of the log of a repeat."""
    return f"repeat:{repeat_id}"


def repeated_node(node: Mapping[str, Any], command: str) -> Mapping[str, Any]:
    """Return the node to run: with another command, lines for the `sh` of the same image.

    `file` stays in it, since the image may follow from it, and so does the directory.
    """
    if not command:
        return dict(node)
    return {key: value for key, value in node.items() if key != "command"} | {"commands": [command]}


def repeat_sentence(
    attempt: int, state: RepeatState, *, detail: str, took_ms: int | None, is_service: bool
) -> str:
    """Return what became of a repeat: `#2 succeeded in 1.2 s`."""
    took = "" if took_ms is None else f" in {format_duration(round(took_ms / 1000, 1))}"
    because = f": {detail}" if detail else ""
    words = {
        RepeatState.QUEUED: "waits for a runner",
        RepeatState.RUNNING: "is running",
        RepeatState.SUCCEEDED: f"was ready{took} and runs on" if is_service else f"succeeded{took}",
        RepeatState.FAILED: f"failed{took}{because}",
        RepeatState.CANCELED: f"was canceled{because}",
    }
    return f"#{attempt} {words[state]}"
