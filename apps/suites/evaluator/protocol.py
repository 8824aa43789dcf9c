"""The JSON that the evaluator process reads from stdin and writes to stdout."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from apps.suites.domain.calls import RecordedNode, Rules
from apps.suites.domain.problems import ProblemDocument


class EvaluationRequest(TypedDict):
    """What to evaluate, and the limits: `seconds` of CPU; `memory` and `answer` in bytes."""

    source: str
    env: dict[str, str]
    rules: Rules
    instructions: int
    seconds: int
    memory: int
    answer: int


class EvaluationAnswer(TypedDict):
    """The nodes in call order, or a problem without prefix.

    `bound` maps globals to the indexes of nodes. `killed` is set when a limit ended the process.
    """

    nodes: list[RecordedNode]
    bound: dict[str, int]
    printed: list[str]
    loads: list[str]
    problem: ProblemDocument | None
    killed: NotRequired[bool]
