"""Why steps and runs fail, and what to do: docs/tables/reasons.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apps.executions.domain.phrases import reason_phrase
from apps.executions.domain.states import RunReason, StepReason
from documentation.markdown import code, table

_NEVER_RAN: Final = "Look at the step under *Because*; this one did not run."
_CLUSTER: Final = "The detail has the words of the cluster; "
ADVICE: Final[Mapping[str, str]] = {  # reason → what to do
    StepReason.DEPENDENCY_FAILED: _NEVER_RAN,
    StepReason.DEPENDENCY_SKIPPED: _NEVER_RAN,
    StepReason.RUN_FAILED: "Look at the step that failed first; this one did not run.",
    StepReason.TRIGGER_NOT_FAILED: "Nothing: a step with `on_failure` runs only after a failure.",
    StepReason.NOT_SELECTED: "Nothing: the rerun did not ask for it. Run again with all steps to have it.",
    StepReason.EXIT_NONZERO: "Read the last lines of the step: `partita run logs RUN --source STEP`.",
    StepReason.EXIT_UNEXPECTED: "Read the last lines; compare the code with `expect_exit_code` of the node.",
    StepReason.TIMEOUT: "Read where the last lines stop. If the work needs longer, raise `timeout` of the node.",
    StepReason.NOT_READY: "Read what the readiness probe got last, then the log of the service: often a port, a path or an "
    "address (`0.0.0.0`, not `127.0.0.1`) is wrong.",
    StepReason.SERVICE_EXITED: "A service must keep running. Read its last lines, or make it a `task` if it has an end.",
    StepReason.OOM_KILLED: "Compare the peak memory under *Usage* with `resources` of the node; raise `memory`, or use less.",
    StepReason.IMAGE_MISSING: "Read what the registry answered: the name or tag, its credentials "
    "([registries](../guides/registries.md)), or the network.",
    StepReason.EXPECT_LOGS_MISSING: "Search the log for the text of `expect_logs`; the program may print something else, or to a file.",
    StepReason.FAIL_ON_LOGS_MATCHED: "Search the log for the text of `fail_on_logs`: the line says what went wrong.",
    StepReason.TEST_FAILURES: "Open the failed cases in the tab *Tests*; each has its message and trace.",
    StepReason.ARTIFACT_MISSING: "The hint says where a file of that name is. Exports are relative to the "
    "[directory of the step](../suites.md#inside-a-step).",
    StepReason.THRESHOLD_FAILED: "Compare the measured value in the detail with the threshold in `suite.star`.",
    StepReason.TARGET_UNREACHABLE: "Check that the target is a service of the suite and healthy, and its host and port.",
    StepReason.MOCK_SURFACE_MISSING: "Check the id in `surface`; the suite's page lists its APIs with their ids.",
    StepReason.MOCK_NOT_READY: "See whether the process that serves mocks runs (`/mocks/ready`), and its log.",
    StepReason.RUNTIME_UNAVAILABLE: "See whether the container engine of the backend answers; its page under Settings says what is wrong.",
    StepReason.AGENT_UNAVAILABLE: "No worker or runner takes work for the backend: `partita worker status` lists them.",
    StepReason.AGENT_LOST: "The worker stopped sending heartbeats: look at its host. `retries` runs the step again.",
    StepReason.UNSCHEDULABLE: _CLUSTER + "lower `resources` of the node, or add nodes.",
    StepReason.QUOTA_EXCEEDED: _CLUSTER + "lower `resources`, end other runs, or raise the quota.",
    StepReason.ADMISSION_REFUSED: _CLUSTER + "a policy of the namespace refuses the pod.",
    StepReason.CONTAINER_CONFIG: _CLUSTER + "often a user, a command or a mount is not possible.",
    StepReason.INIT_FAILED: _CLUSTER
    + "the image `STEP_INIT_IMAGE` must be there, with `sh` and `tar`.",
    StepReason.EVICTED: "The step itself did not fail. `retries` of the node runs it again.",
    StepReason.PREEMPTED: "The step itself did not fail. `retries` runs it again; a priority class avoids it.",
    StepReason.NODE_LOST: "The step itself did not fail. `retries` of the node runs it again.",
    StepReason.CANCELED: "The verdict says who canceled the run, when and why.",
    StepReason.INTERNAL_ERROR: "Report it, with the id of the run and the lines of the server's log about it.",
    RunReason.STEP_FAILED: "The verdict names the step; look up its reason above.",
    RunReason.SECRET_UNRESOLVED: "The detail names the secret: see [secrets](../operations.md#secrets).",
    RunReason.BACKEND_UNAVAILABLE: "The backend was removed or disabled: choose another, or enable it under Settings.",
    RunReason.RUN_TIMEOUT: "Raise `EXECUTION_MAX_DURATION`, or see in the tab *Timeline* what took so long.",
    RunReason.DEPENDENCY_REPLACED: "A service started again after steps had run against it. Read why it ended, then run again.",
}


def page() -> str:
    """Return the page. Raises KeyError for a reason without advice."""
    steps = table(("Reason", "In words", "What to do"), map(row, StepReason))
    own = [reason for reason in RunReason if reason not in set(map(str, StepReason))]
    runs = table(("Reason", "In words", "What to do"), map(row, own))
    return (
        "# Reasons, and what to do\n\n"
        "A step or run that failed has a reason code: in the API, in `-o json`, and in events. Pages and "
        "commands have its words. [Read a failed run](../guides/read-a-failed-run.md) says where to look, "
        "[troubleshooting](../guides/troubleshoot.md) begins with what you see.\n\n"
        f"## Of a step\n\n{steps}\n## Of a run as a whole\n\n{runs}"
    )


def row(reason: StepReason | RunReason) -> tuple[str, str, str]:
    return code(reason.value), reason_phrase(reason.value).alone, ADVICE[reason]
