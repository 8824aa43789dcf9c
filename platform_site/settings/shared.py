"""Settings that `base` and `sync` share: Django's, Celery's, and those of the orchestrator."""

from __future__ import annotations

import os
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from sync_stack.configuration.conf import Environment

_environment = Environment(os.environ)

DEBUG = False
USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = False
TASK_APPLICATION = "platform_site.celery.app"  # a path: commands that send no task skip Celery
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_REDIRECT_STDOUTS = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # by default a worker ends after 100, about an hour

SYNC_APP_ENV = _environment.app_env()
SYNC_CONFIG_PATH = Path(_environment.text("CONFIG_PATH", "config.cue"))
SYNC_MAX_PENDING = _environment.integer("SYNC_MAX_PENDING", 10_000, low=1)
SYNC_MAX_ATTEMPTS = _environment.integer("SYNC_MAX_ATTEMPTS", 6, low=1, high=1000)
SYNC_TASK_RETENTION_S = _environment.duration_s("TASK_RETENTION", "30d", low=3600)
SYNC_RECONCILE_INTERVAL_S = _environment.duration_s("RECONCILE_INTERVAL", "5m")
SYNC_WORKER_CONCURRENCY = _environment.integer("WORKER_CONCURRENCY", 4, low=1, high=256)
SYNC_GIT_CACHE_DIR = Path(_environment.text("GIT_CACHE_DIR", "var/git-cache")).absolute()
SYNC_GIT_CACHE_MAX_ENTRIES = _environment.integer("GIT_CACHE_MAX_ENTRIES", 200, low=1)
SYNC_SCHEMA_CACHE_DIR = Path(_environment.text("SCHEMA_CACHE_DIR", "var/schema-cache")).absolute()
SYNC_SCHEMA_TTL_S = _environment.integer("SCHEMA_TTL_SECONDS", 300)
SYNC_GRPC_ADDR = _environment.text("ORCHESTRATOR_GRPC_ADDR", ":50051")
SYNC_HTTP_ADDR = _environment.text("ORCHESTRATOR_HTTP_ADDR", ":8000")
SYNC_GRPC_SHARED_TOKEN = _environment.text("GRPC_SHARED_TOKEN")
SYNC_GRPC_TLS_CERT = _environment.text("GRPC_TLS_CERT")
SYNC_GRPC_TLS_KEY = _environment.text("GRPC_TLS_KEY")
SYNC_GRPC_TLS_CA = _environment.text("GRPC_TLS_CA")
SYNC_TLS_AUTO_DIR = _environment.text("TLS_AUTO_DIR")
SYNC_FIRST_START: tuple[str, ...] = ()
SYNC_CORS_ORIGINS = _environment.words("CORS_ORIGINS")
SYNC_BROKER_URL = _environment.text("CELERY_BROKER_URL")
SYNC_BROKER_OPTIONS = {  # of a redis broker, wherever its address comes from
    "socket_timeout": 5,
    "socket_connect_timeout": 2,
    "visibility_timeout": 1500,
    "global_keyprefix": "partita:broker:",
}


def _task_api_keys() -> tuple[str, ...]:
    path = _environment.text("TASK_API_KEY_FILE")
    if not path:
        return _environment.words("TASK_API_KEYS")
    try:
        words = Path(path).read_text(encoding="utf-8").replace(",", "\n").split()
    except OSError as error:
        _environment.wrong("TASK_API_KEY_FILE", f"cannot be read: {error.strerror}")
        return ()
    return (*_environment.words("TASK_API_KEYS"), *words)


SYNC_TASK_API_KEYS = _task_api_keys()
if "*" in SYNC_CORS_ORIGINS:
    _environment.wrong("CORS_ORIGINS", "exact origins only, * is refused")
if _environment.problems:
    raise ImproperlyConfigured("; ".join(_environment.problems))
