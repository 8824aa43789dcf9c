"""The settings of executions."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings

from apps.executions.domain.artifact_location import ArtifactLocation


def max_active() -> int:
    return settings.EXECUTION_MAX_ACTIVE


def max_queued() -> int:
    return settings.EXECUTION_MAX_QUEUED


def max_duration() -> timedelta:
    return timedelta(seconds=settings.EXECUTION_MAX_DURATION_S)


def log_max_bytes() -> int:
    return settings.EXECUTION_LOG_MAX_BYTES


def max_kept() -> int:
    """Return how many environments a workspace keeps at most."""
    return settings.EXECUTION_MAX_KEPT


def mails_of_keeping() -> bool:
    """Return whether the owner of a kept environment gets mail before it ends."""
    return settings.EXECUTION_KEEP_MAIL


def retention() -> timedelta:
    return timedelta(seconds=settings.EXECUTION_RETENTION_S)


def artifact_retention() -> timedelta:
    """Return how long after its run an artifact has its bytes; at most as long as the run."""
    return timedelta(seconds=settings.EXECUTION_ARTIFACT_RETENTION_S)


def artifact_location() -> ArtifactLocation | None:
    """Return where the bytes of new artifacts go, None: into the store."""
    found: ArtifactLocation | None = settings.ARTIFACT_LOCATION
    return found


def max_parallel_steps() -> int:
    return settings.RUNNER_MAX_PARALLEL_STEPS


def env_prefixes() -> tuple[str, ...]:
    return settings.STEP_ENV_PREFIXES


def mock_base_url() -> str:
    return settings.MOCK_BASE_URL


def lease() -> timedelta:
    """Return how long a claim is valid without renewal."""
    return timedelta(seconds=settings.LEASE_S)


def lease_grace() -> timedelta:
    """Return how long after its end a lease may still be renewed."""
    return timedelta(seconds=settings.LEASE_GRACE_S)


def lease_owner_patience() -> timedelta:
    """Return the grace of a supervisor whose units no other could adopt; never shorter."""
    return max(lease_grace(), timedelta(seconds=settings.LEASE_OWNER_PATIENCE_S))


def run_page(run_id: str) -> str:
    """Return the address of the page of a run."""
    return f"{settings.PUBLIC_API_URL}/executions/{run_id}"
