"""Executions: run a resolved suite on a backend, and tell what happens.

Depends on profiles, suites, agents, platform_settings, accounts, streams and system; never on
workers, which do the work, nor on console, which shows it.
"""

from __future__ import annotations

from apps.executions.domain.errors import (
    ArtifactNotFound,
    ExecutionActive,
    ExecutionFinished,
    ExecutionNotFound,
)
from apps.executions.domain.launching import (
    Idempotency,
    IdempotencyKeyReused,
    Launched,
    LaunchRequest,
    QueueFull,
)
from apps.executions.domain.log_search import LineFilter
from apps.executions.domain.reports import (
    ActiveJob,
    Adopted,
    ArtifactUpload,
    Completion,
    ContentNotFound,
    EndingJob,
    ExchangeAnswer,
    JobNotFound,
    KeptJob,
    Lease,
    LogChunk,
    LogGap,
    LogLine,
    Recorded,
    Renewal,
    StaleAttempt,
    StateReport,
    Supervisor,
    Usage,
)
from apps.executions.domain.run_filter import RunFilter
from apps.executions.domain.topics import OVERVIEW_NUDGE, WORK_NUDGE, events_topic, logs_topic
from apps.executions.selectors.artifacts import StoredFile, artifact_file
from apps.executions.selectors.detail import detail, run_detail
from apps.executions.selectors.ending_jobs import ending_jobs
from apps.executions.selectors.envelopes import event_envelope, log_envelope
from apps.executions.selectors.junit import junit_document
from apps.executions.selectors.launchable import backend_options, launch_suites
from apps.executions.selectors.logs import SearchState, log_pages, search_log
from apps.executions.selectors.overview import OverviewTaker, overview
from apps.executions.selectors.runs import (
    NEWEST_FIRST,
    list_executions,
    matching_runs,
    recent_runs,
)
from apps.executions.selectors.scope import get_execution
from apps.executions.selectors.steps import is_job
from apps.executions.selectors.summaries import summaries, summary
from apps.executions.services.artifacts import ArtifactTooLarge, source_content, store_artifact
from apps.executions.services.dispatch import dispatch
from apps.executions.services.ending import cancel, delete, releasable_runs, remove_old_runs
from apps.executions.services.exchange import exchange
from apps.executions.services.launch import launch, launch_once
from apps.executions.services.leases import adopt, lose_jobs_of, renew
from apps.executions.services.moves import jobs_nudge
from apps.executions.services.sweep import sweep
from apps.executions.services.sweeper import Sweeper

__all__ = [
    "NEWEST_FIRST",
    "OVERVIEW_NUDGE",
    "WORK_NUDGE",
    "ActiveJob",
    "Adopted",
    "ArtifactNotFound",
    "ArtifactTooLarge",
    "ArtifactUpload",
    "Completion",
    "ContentNotFound",
    "EndingJob",
    "ExchangeAnswer",
    "ExecutionActive",
    "ExecutionFinished",
    "ExecutionNotFound",
    "Idempotency",
    "IdempotencyKeyReused",
    "JobNotFound",
    "KeptJob",
    "LaunchRequest",
    "Launched",
    "Lease",
    "LineFilter",
    "LogChunk",
    "LogGap",
    "LogLine",
    "OverviewTaker",
    "QueueFull",
    "Recorded",
    "Renewal",
    "RunFilter",
    "SearchState",
    "StaleAttempt",
    "StateReport",
    "StoredFile",
    "Supervisor",
    "Sweeper",
    "Usage",
    "adopt",
    "artifact_file",
    "backend_options",
    "cancel",
    "delete",
    "detail",
    "dispatch",
    "ending_jobs",
    "event_envelope",
    "events_topic",
    "exchange",
    "get_execution",
    "is_job",
    "jobs_nudge",
    "junit_document",
    "launch",
    "launch_once",
    "launch_suites",
    "list_executions",
    "log_envelope",
    "log_pages",
    "logs_topic",
    "lose_jobs_of",
    "matching_runs",
    "overview",
    "recent_runs",
    "releasable_runs",
    "remove_old_runs",
    "renew",
    "run_detail",
    "search_log",
    "source_content",
    "store_artifact",
    "summaries",
    "summary",
    "sweep",
]
