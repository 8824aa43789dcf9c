"""The exit codes of all commands. The wheel has `kernel/exit_codes.py` in this place."""

from __future__ import annotations

from kernel.exit_codes import (
    BY_HTTP_STATUS,
    BY_PROBLEM_CODE,
    EXIT_CODES_HELP,
    INFRASTRUCTURE_REASONS,
    CiExitCode,
    ExitCode,
    is_of_infrastructure,
)

__all__ = [
    "BY_HTTP_STATUS",
    "BY_PROBLEM_CODE",
    "EXIT_CODES_HELP",
    "INFRASTRUCTURE_REASONS",
    "CiExitCode",
    "ExitCode",
    "is_of_infrastructure",
]
