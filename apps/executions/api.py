"""Executions: run a resolved suite on a backend, and publish what happens.

Depends on profiles, suites, agents, platform_settings, accounts, streams and system; never on
workers, which do the work, nor on console, which shows it.
"""

from __future__ import annotations

from apps.executions.domain.agent_reports import (
    Adopted,
    JobNotFound,
    JobToStop,
    Lease,
    LogGap,
    Recorded,
    ReportBatchResult,
    StaleAttempt,
    SupervisorSession,
)
from apps.executions.domain.events import (
    OVERVIEW_NUDGE,
    WORK_NUDGE,
    events_topic,
    jobs_nudge,
    logs_topic,
    probes_nudge,
)
from apps.executions.domain.runs import (
    ExecutionActive,
    ExecutionFinished,
    ExecutionNotFound,
    Idempotency,
    IdempotencyKeyReused,
    Launched,
    LaunchRequest,
    QueueFull,
    RunFilter,
    RunSummary,
)
from apps.executions.domain.states import FINAL_EXECUTION
from apps.executions.selectors.artifacts import (
    FailedCase,
    StoredFile,
    artifact_file,
    failed_cases,
    junit_document,
)
from apps.executions.selectors.detail import detail, event_envelope, log_envelope, run_detail
from apps.executions.selectors.launchable import launch_suites
from apps.executions.selectors.logs import (
    LineFilter,
    SearchState,
    last_lines,
    log_pages,
    search_log,
)
from apps.executions.selectors.mock_spaces import mock_spaces
from apps.executions.selectors.overview import OverviewTaker, RunPage, overview, run_page
from apps.executions.selectors.probes import ProbesTaker
from apps.executions.selectors.runs import (
    NEWEST_FIRST,
    get_execution,
    is_job,
    jobs_to_stop,
    matching_runs,
    recent_runs,
    suite_runs,
    summaries,
    summary,
)
from apps.executions.services.agent_reports import record_reports
from apps.executions.services.environment import StepEnvironment, explain_env
from apps.executions.services.launch import dispatch, launch, launch_once
from apps.executions.services.leases import adopt, expire_jobs_of, renew
from apps.executions.services.mock_nodes import check_mocks
from apps.executions.services.run_progression import cancel
from apps.executions.services.storage import (
    delete,
    releasable_runs,
    remove_old_runs,
    source_content,
    store_artifact,
)
from apps.executions.services.sweep import Sweeper, sweep

__all__ = [
    "FINAL_EXECUTION",
    "NEWEST_FIRST",
    "OVERVIEW_NUDGE",
    "WORK_NUDGE",
    "Adopted",
    "ExecutionActive",
    "ExecutionFinished",
    "ExecutionNotFound",
    "FailedCase",
    "Idempotency",
    "IdempotencyKeyReused",
    "JobNotFound",
    "JobToStop",
    "LaunchRequest",
    "Launched",
    "Lease",
    "LineFilter",
    "LogGap",
    "OverviewTaker",
    "ProbesTaker",
    "QueueFull",
    "Recorded",
    "ReportBatchResult",
    "RunFilter",
    "RunPage",
    "RunSummary",
    "SearchState",
    "StaleAttempt",
    "StepEnvironment",
    "StoredFile",
    "SupervisorSession",
    "Sweeper",
    "adopt",
    "artifact_file",
    "cancel",
    "check_mocks",
    "delete",
    "detail",
    "dispatch",
    "event_envelope",
    "events_topic",
    "expire_jobs_of",
    "explain_env",
    "failed_cases",
    "get_execution",
    "is_job",
    "jobs_nudge",
    "jobs_to_stop",
    "junit_document",
    "last_lines",
    "launch",
    "launch_once",
    "launch_suites",
    "log_envelope",
    "log_pages",
    "logs_topic",
    "matching_runs",
    "mock_spaces",
    "overview",
    "probes_nudge",
    "recent_runs",
    "record_reports",
    "releasable_runs",
    "remove_old_runs",
    "renew",
    "run_detail",
    "run_page",
    "search_log",
    "source_content",
    "store_artifact",
    "suite_runs",
    "summaries",
    "summary",
    "sweep",
]
