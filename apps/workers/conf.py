"""The settings of runners and workers."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from apps.observability.api import telemetry_settings
from apps.suites.api import container_kinds
from kernel.addresses import LOCAL_TOO, AddressError, read_base_url
from kernel.ids import is_identifier
from kernel.telemetry import endpoint_url
from worker.domain.launch import LaunchRules, StepEnvironmentRules
from worker.settings import WorkerSettings

_SECRET_CHARACTERS = 16


def state_dir() -> Path:
    """Return the folder of supervisors: spools, marks and the folders of processes."""
    return Path(settings.DATA_DIR) / "workers"


def local_runtime() -> str:
    return str(settings.LOCAL_RUNTIME)


def kubeconfig() -> str:
    """Return the kubeconfig of the runtime `kubernetes`; empty in a pod, for its own account.

    Of a list of files, as kubectl takes it, the first counts.
    """
    return str(settings.KUBECONFIG).partition(":")[0]


def pull_policy() -> str:
    return str(settings.STEP_IMAGE_PULL_POLICY)


def init_image() -> str:
    """Return the image of helper containers."""
    return str(settings.STEP_INIT_IMAGE)


def starts_ahead() -> int:
    """Return how many units of steps that may come next are started ahead; 0: none."""
    return int(settings.START_AHEAD)


def agent_secret() -> str:
    """Return the secret that workers register with; empty if it is unset or too short."""
    secret = str(settings.AGENT_SHARED_SECRET)
    return secret if len(secret) >= _SECRET_CHARACTERS else ""


def worker_settings() -> WorkerSettings:
    """Raises ImproperlyConfigured, naming the variable."""
    agent_id = settings.AGENT_ID or re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())
    for name, values in (("AGENT_ID", [agent_id]), ("AGENT_BACKENDS", settings.AGENT_BACKENDS)):
        for value in values:
            _require(is_identifier(value), name, value, "letters, digits and . _ - (at most 128)")
    url = settings.AGENT_CONTROL_PLANE_URL
    _require(
        re.match(r"(https?://[^\s/?#]+.*)?\Z", url),
        "AGENT_CONTROL_PLANE_URL",
        url,
        "a http or https URL",
    )
    labels = (label.partition("=") for label in settings.AGENT_LABELS)
    return WorkerSettings(
        agent_id=agent_id,
        name=settings.AGENT_NAME,
        public_url=_public_url(),
        control_plane_url=settings.AGENT_CONTROL_PLANE_URL,
        backends=tuple(settings.AGENT_BACKENDS),
        labels={key: value for key, _, value in labels},
        step_kinds=container_kinds(),
        concurrency=settings.AGENT_CONCURRENCY,
        drain_s=settings.AGENT_DRAIN_TIMEOUT_S,
        host=settings.HOST,
        port=settings.AGENT_PORT,
        secret=agent_secret(),
        kubeconfig=kubeconfig(),
        starts_ahead=starts_ahead(),
    )


def _public_url() -> str:
    """Return the worker's `hostUrl`; empty when unset."""
    if not settings.AGENT_PUBLIC_URL:
        return ""
    try:
        return read_base_url(settings.AGENT_PUBLIC_URL, LOCAL_TOO)
    except AddressError as error:
        raise ImproperlyConfigured(f"AGENT_PUBLIC_URL: {error}") from None


def _require(holds: Any, name: str, value: str, expected: str) -> None:
    if not holds:
        raise ImproperlyConfigured(f"{name}={value!r}: expected {expected}")


def lease_s() -> float:
    return float(settings.LEASE_S)


def lease_grace_s() -> float:
    """Return how long an expired lease may still be renewed."""
    return float(settings.LEASE_GRACE_S)


def runner_capacity() -> int:
    """Return the steps at once in one runner: enough for every active run."""
    return int(settings.RUNNER_MAX_PARALLEL_STEPS * settings.EXECUTION_MAX_ACTIVE)


def launch_rules() -> LaunchRules:
    return LaunchRules(
        environment=StepEnvironmentRules(
            prefixes=settings.STEP_ENV_PREFIXES,
            telemetry=_telemetry(),
        ),
        default_images=settings.STEP_DEFAULT_IMAGES,
        max_memory_bytes=settings.STEP_MAX_MEMORY,
        max_cpus=settings.STEP_MAX_CPU,
    )


def _telemetry() -> dict[str, str]:
    """Return the endpoint for steps, without headers and user, which may hold credentials.

    It always has a scheme, so `OTEL_EXPORTER_OTLP_INSECURE` is not needed.
    """
    exported = telemetry_settings()
    if exported is None:
        return {}
    url = urlsplit(endpoint_url(exported))
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": url._replace(netloc=url.netloc.rpartition("@")[2]).geturl(),
        "OTEL_EXPORTER_OTLP_PROTOCOL": exported.protocol,
    }
