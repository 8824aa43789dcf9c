"""What a run keeps of the output of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apps.executions import conf
from apps.executions.domain.event_ids import RUN_SOURCE
from apps.executions.domain.reports import LogLine
from apps.executions.services.board import Board

_OUTPUT: Final = ("output", "metric")


def keep_output(board: Board, at: int, lines: Sequence[LogLine]) -> None:
    """Put lines into the log; beyond the limit no output, with logs off only system lines."""
    logs_on = board.run.profile["observability"].get("logs", True)
    if not logs_on:
        _print(board, at, [line for line in lines if line.kind == "system"])
    elif board.execution.log_bytes >= conf.log_max_bytes():
        others = _others(lines)
        _drop(board, len(lines) - len(others))
        _print(board, at, others)
    else:
        _print(board, at, lines)


def _print(board: Board, at: int, lines: Sequence[LogLine]) -> None:
    if lines:
        size = board.print(board.run.plan.nodes[at].id, lines, attempt=board.attempt(at))
        board.change_run(log_bytes=board.execution.log_bytes + size)


def _drop(board: Board, count: int) -> None:
    if count and not board.execution.log_lines_dropped:
        text = f"the limit of {conf.log_max_bytes()} bytes is reached: no further output is kept"
        board.print(RUN_SOURCE, [LogLine(board.now, "warn", "system", text)])
    board.change_run(log_lines_dropped=board.execution.log_lines_dropped + count)


def _others(lines: Sequence[LogLine]) -> list[LogLine]:
    return [line for line in lines if line.kind not in _OUTPUT]
