"""Executions: run a resolved suite on a backend, and publish what happens.

Depends on profiles, suites, agents, platform_settings, accounts, streams and system; never on
workers, which do the work, nor on console, which shows it.
"""

from __future__ import annotations

from apps.executions.domain.agent_reports import (
    Adopted,
    JobNotFound,
    JobToStop,
    LogGap,
    Recorded,
    ReportBatchResult,
    StaleAttempt,
    SupervisorSession,
)
from apps.executions.domain.attempts import AttemptBody, attempt_numbers, gap_words, has_reruns
from apps.executions.domain.critical_path import CriticalLink, TimelineBody
from apps.executions.domain.events import WORK_NUDGE, CauseLink, jobs_nudge, work_nudge
from apps.executions.domain.junit import REPORT_FORMATS
from apps.executions.domain.kept_environments import NotKept, keep_nudge
from apps.executions.domain.phrases import failure_phrase, link_phrase
from apps.executions.domain.repeats import REPEATS_NUDGE
from apps.executions.domain.runs import LaunchRequest, RunFacts, RunFilter
from apps.executions.domain.since_green import difference_name, difference_sides
from apps.executions.domain.states import FINAL_EXECUTION, CancelReason
from apps.executions.domain.timeline import SEGMENT_KINDS, SegmentBody, StepTimeline
from apps.executions.domain.verdict import RunVerdict
from apps.executions.selectors.artifact_files import artifact_preview
from apps.executions.selectors.artifacts import failed_cases
from apps.executions.selectors.attempts import since_green
from apps.executions.selectors.detail import STEPS_ONLY, detail, run_detail
from apps.executions.selectors.environment_facts import run_facts, usage_by_job
from apps.executions.selectors.kept_environments import is_kept, kept_run
from apps.executions.selectors.launchable import launch_suites
from apps.executions.selectors.mock_spaces import mock_spaces
from apps.executions.selectors.overview import overview, run_page
from apps.executions.selectors.runs import (
    get_execution,
    is_job,
    jobs_to_stop,
    suite_runs,
    unfinished_runs,
)
from apps.executions.selectors.step_units import StepUnit, is_enterable, step_unit, step_units
from apps.executions.selectors.suite_results import newest_by_suite
from apps.executions.selectors.timeline import timeline
from apps.executions.services.agent_reports import record_reports
from apps.executions.services.artifact_objects import put_off_orphans
from apps.executions.services.artifact_sweeper import require_artifact_storage
from apps.executions.services.artifact_uploads import store_artifact
from apps.executions.services.cancellations import cancel_run_of_environment, cancel_unfinished_runs
from apps.executions.services.environment import explain_env
from apps.executions.services.launch import launch
from apps.executions.services.leases import adopt, expire_jobs_of, renew
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
from apps.executions.services.storage import releasable_runs, source_content
