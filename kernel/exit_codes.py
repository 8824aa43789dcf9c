"""What the end of a command says to a script, for both halves and the client (docs/commands.md)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final


class ExitCode(enum.IntEnum):
    """What the end of a command says to a script."""

    OK = 0
    ERROR = 1
    USAGE = 2
    NOT_FOUND = 3
    FORBIDDEN = 4
    CONFLICT = 5
    UNAVAILABLE = 6
    RUN_FAILED = 10
    RUN_ERROR = 11
    RUN_CANCELED = 12
    TIMEOUT = 13
    STILL_RUNNING = 14
    ADDRESS_IN_USE = 69  # of a process that serves: EX_UNAVAILABLE of sysexits
    CONFIGURATION = 78  # EX_CONFIG: a restart does not help before somebody mends it
    INTERRUPTED = 130


class CiExitCode(enum.IntEnum):
    """What the end of `partita run launch --ci` says: CI systems tell few codes apart."""

    HEALTHY = 0
    YOUR_CODE = 1
    USAGE = 2
    UNKNOWN = 3  # whatever else ends it: nothing was found out about the code


EXIT_CODES_HELP: Final = (
    "exit codes: 0 success, 1 error, 2 usage, 3 not found, 4 not allowed, 5 conflict,\n"
    "  6 unavailable, 78 wrong configuration; a watched run: 10 failed (a step),\n"
    "  11 failed (infrastructure), 12 canceled, 13 time out, 14 still running;\n"
    "  run launch --ci: 0 healthy, 1 your code, 2 usage, 3 could not find out"
)
BY_HTTP_STATUS: Final = {
    401: ExitCode.FORBIDDEN,
    403: ExitCode.FORBIDDEN,
    404: ExitCode.NOT_FOUND,
    409: ExitCode.CONFLICT,
    412: ExitCode.CONFLICT,
    501: ExitCode.UNAVAILABLE,
    502: ExitCode.UNAVAILABLE,
    503: ExitCode.UNAVAILABLE,
}
BY_PROBLEM_CODE: Final = {
    "backend_unknown": ExitCode.NOT_FOUND,
    "profile_not_in_suite": ExitCode.NOT_FOUND,
}
# reasons of runs and steps that concern the infrastructure, not the suite
INFRASTRUCTURE_REASONS: Final = frozenset(
    {"runtime_unavailable", "agent_unavailable", "agent_lost", "internal_error"}
    | {"backend_unavailable", "secret_unresolved", "run_timeout"}
    | {"dependency_replaced", "unschedulable", "quota_exceeded", "admission_refused"}
    | {"container_config", "init_failed", "evicted", "preempted", "node_lost"}
)


def is_of_infrastructure(run: Mapping[str, Any]) -> bool:
    """Return whether a failed run, or one of its failed steps, failed by what it ran on."""
    failed = [step for step in run.get("steps", ()) if step["status"] == "failed"]
    reasons = {run.get("reason"), *(step.get("reason") for step in failed)}
    return bool(reasons & INFRASTRUCTURE_REASONS)
