"""Settings of the orchestrator, read at each use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string


def secret_keys() -> tuple[str, ...]:
    """Return the stack secret and the earlier ones."""
    return tuple(str(key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS))


def celery_application() -> Any:
    """Return the project's Celery application; Celery is imported at the first call."""
    return import_string(settings.TASK_APPLICATION)


def app_env() -> str:
    return str(settings.SYNC_APP_ENV)


def is_production() -> bool:
    return bool(settings.SYNC_APP_ENV == "production")


def max_pending() -> int:
    return int(settings.SYNC_MAX_PENDING)


def max_attempts() -> int:
    return int(settings.SYNC_MAX_ATTEMPTS)


def task_retention_s() -> float:
    return float(settings.SYNC_TASK_RETENTION_S)


def reconcile_interval_s() -> float:
    return float(settings.SYNC_RECONCILE_INTERVAL_S)


def worker_concurrency() -> int:
    return int(settings.SYNC_WORKER_CONCURRENCY)


def git_cache_dir() -> Path:
    return Path(settings.SYNC_GIT_CACHE_DIR)


def git_cache_max_entries() -> int:
    return int(settings.SYNC_GIT_CACHE_MAX_ENTRIES)


def schema_cache_dir() -> Path:
    return Path(settings.SYNC_SCHEMA_CACHE_DIR)


def schema_ttl_s() -> float:
    return float(settings.SYNC_SCHEMA_TTL_S)


def grpc_addr() -> str:
    return str(settings.SYNC_GRPC_ADDR)


def http_addr() -> str:
    return str(settings.SYNC_HTTP_ADDR)


def grpc_token() -> str:
    return str(settings.SYNC_GRPC_SHARED_TOKEN)


def grpc_tls() -> tuple[str, str, str]:
    """Return certificate, key and trust root; each is empty if unset."""
    return (settings.SYNC_GRPC_TLS_CERT, settings.SYNC_GRPC_TLS_KEY, settings.SYNC_GRPC_TLS_CA)


def tls_auto_dir() -> str:
    return str(settings.SYNC_TLS_AUTO_DIR)


def first_start() -> tuple[str, ...]:
    """Return log lines about the files that this start generated."""
    return tuple(settings.SYNC_FIRST_START)


def task_api_keys() -> tuple[str, ...]:
    return tuple(settings.SYNC_TASK_API_KEYS)


def cors_origins() -> tuple[str, ...]:
    return tuple(settings.SYNC_CORS_ORIGINS)


def broker_options() -> dict[str, object]:
    return dict(settings.SYNC_BROKER_OPTIONS)


def broker_url() -> str:
    """Return the URL of the broker; empty: the orchestrator runs tasks itself."""
    return str(settings.SYNC_BROKER_URL)
