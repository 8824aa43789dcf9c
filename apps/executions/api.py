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
from apps.executions.domain.attempts import AttemptBody, attempt_numbers, gap_words, has_reruns
from apps.executions.domain.critical_path import CriticalLink, TimelineBody, rounded_duration
from apps.executions.domain.events import (
    OVERVIEW_NUDGE,
    WORK_NUDGE,
    CauseLink,
    events_topic,
    jobs_nudge,
    logs_topic,
    probes_nudge,
    work_nudge,
)
from apps.executions.domain.junit import REPORT_FORMATS
from apps.executions.domain.kept_environments import KeepBody, KeptRun, NotKept, keep_nudge
from apps.executions.domain.phrases import failure_phrase, link_phrase
from apps.executions.domain.repeats import (
    REPEATS_NUDGE,
    RepeatNotFound,
    RepeatRequest,
    RepeatState,
    repeat_topic,
)
from apps.executions.domain.rerun import RerunScope
from apps.executions.domain.runs import (
    Concurrency,
    ExecutionActive,
    ExecutionFinished,
    ExecutionNotFound,
    Idempotency,
    IdempotencyKeyReused,
    Launched,
    LaunchRequest,
    QueueFull,
    RunFacts,
    RunFilter,
    RunSummary,
)
from apps.executions.domain.since_green import difference_name, difference_sides
from apps.executions.domain.states import FINAL_EXECUTION, CancelReason
from apps.executions.domain.timeline import SEGMENT_KINDS, SegmentBody, StepTimeline
from apps.executions.domain.verdict import RunVerdict, StepVerdict
from apps.executions.selectors.artifact_files import (
    ArtifactPreview,
    StoredFile,
    artifact_archive,
    artifact_file,
    artifact_image,
    artifact_preview,
    run_artifact_files,
)
from apps.executions.selectors.artifacts import FailedCase, failed_cases
from apps.executions.selectors.attempts import SinceGreen, run_since_green, since_green
from apps.executions.selectors.detail import (
    NO_PARTS,
    STEPS_ONLY,
    detail,
    event_envelope,
    log_envelope,
    run_detail,
)
from apps.executions.selectors.environment_facts import run_facts, usage_by_job
from apps.executions.selectors.junit_report import junit_document
from apps.executions.selectors.kept_environments import is_kept, kept_run
from apps.executions.selectors.launchable import launch_suites, referenced_suite
from apps.executions.selectors.logs import (
    PATTERN_MAX_CHARACTERS,
    LineFilter,
    LinePlace,
    SearchPatternInvalid,
    SearchState,
    compile_pattern,
    first_line_at,
    last_lines,
    log_pages,
    search_log,
)
from apps.executions.selectors.mock_spaces import mock_spaces
from apps.executions.selectors.overview import OverviewTaker, RunPage, overview, run_page
from apps.executions.selectors.probes import ProbesTaker
from apps.executions.selectors.repeats import (
    NEWEST_REPEATS_FIRST,
    RepeatDocument,
    find_repeat,
    get_repeat,
    list_repeats,
    repeat_detail,
    repeat_documents,
    repeat_envelope,
    repeat_file,
)
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
from apps.executions.selectors.step_units import StepUnit, is_enterable, step_unit, step_units
from apps.executions.selectors.suite_results import newest_by_suite
from apps.executions.selectors.timeline import run_timeline, timeline
from apps.executions.services.admission import dispatch
from apps.executions.services.agent_reports import record_reports
from apps.executions.services.artifact_moves import move_artifacts, storage_parts
from apps.executions.services.artifact_objects import put_off_orphans
from apps.executions.services.artifact_sweeper import require_artifact_storage
from apps.executions.services.artifact_uploads import store_artifact
from apps.executions.services.cancellations import (
    cancel,
    cancel_run_of_environment,
    cancel_unfinished_runs,
)
from apps.executions.services.environment import StepEnvironment, explain_env
from apps.executions.services.kept_environments import end as end_keeping
from apps.executions.services.kept_environments import extend as extend_keeping
from apps.executions.services.launch import launch, launch_once
from apps.executions.services.leases import adopt, expire_jobs_of, renew
from apps.executions.services.mock_nodes import check_mocks
from apps.executions.services.repeat_claims import (
    LostRepeat,
    PreparedRepeat,
    RepeatClaim,
    end_lost_repeat,
    fail_repeat,
    lost_repeats,
    next_repeat,
    prepare_repeat,
    renew_repeats,
    source_files,
    take_repeats,
)
from apps.executions.services.repeat_reports import (
    complete_repeat,
    record_repeat_lines,
    record_repeat_state,
    store_repeat_artifact,
)
from apps.executions.services.repeats import (
    cancel_repeat,
    files_of_archive,
    repeat_step,
)
from apps.executions.services.rerun import (
    RerunPlanBody,
    RerunRequest,
    prepare_rerun,
    rerun,
)
from apps.executions.services.storage import (
    delete,
    releasable_runs,
    remove_old_runs,
    source_content,
)
from apps.executions.services.sweep import sweep
