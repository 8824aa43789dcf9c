"""Processes of the sync stack: the same store, no accounts, no pages, no JWT_SECRET."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from platform_site.settings import env
from platform_site.settings.keys import MIN_SECRET_BYTES, derived_key
from platform_site.settings.shared import *
from platform_site.settings.shared import (
    SYNC_APP_ENV,
    SYNC_BROKER_OPTIONS,
    SYNC_BROKER_URL,
    SYNC_TASK_API_KEYS,
)
from platform_site.settings.store import Database, auto_field, databases
from platform_site.settings.store import apps as apps_of_store
from platform_site.settings.sync_files import first_start_secret, make_first_start, mongo_of_bundle
from sync_stack.configuration.conf import Environment
from sync_stack.configuration.logs import logging_settings
from sync_stack.configuration.startup import SECRET_KEY as SECRET_KEY_FILE
from sync_stack.configuration.startup import TASK_API_KEY

_COMMAND = sys.argv[1] if len(sys.argv) > 1 else ""
_CHECKS_ONLY = sys.argv[1:3] == ["sync", "check"]  # signs nothing, and needs no store
# Files that this start made; before the bundle, which may name one of them.
SYNC_FIRST_START = make_first_start() if _COMMAND == "run_orchestrator" else ()

BASE_DIR = Path(__file__).resolve().parents[2]
DATA_DIR = Path(env.text("DATA_DIR", "var")).absolute()
DB_DRIVER = env.choice("DB_DRIVER", "mongo", ("mongo", "postgres", "sqlite"))
DATABASES: dict[str, Database] = {}
if DB_DRIVER == "mongo" and env.secret("MONGO_URI") == "bundle" and not _CHECKS_ONLY:
    DATABASES = {"default": mongo_of_bundle(SYNC_APP_ENV)}
elif not _CHECKS_ONLY:
    DATABASES = databases(DB_DRIVER, DATA_DIR)
DEFAULT_AUTO_FIELD = auto_field(DB_DRIVER)

SECRET_KEY = (
    env.secret("SECRET_KEY")
    or derived_key(env.secret("JWT_SECRET"), "secret-key", size=48)
    or first_start_secret(SECRET_KEY_FILE)
)
_REPLACED = env.secret_words("JWT_PREVIOUS_SECRETS")
SECRET_KEY_FALLBACKS = [  # a key that was derived is known by the secret that it was derived from
    *env.secret_words("SECRET_KEY_FALLBACKS"),
    *(derived_key(each, "secret-key", size=48) for each in _REPLACED),
]
if len(SECRET_KEY.encode()) < MIN_SECRET_BYTES:
    if SYNC_APP_ENV == "production" and not _CHECKS_ONLY:
        raise ImproperlyConfigured(
            f"SECRET_KEY: required with APP_ENV=production: set it to at least {MIN_SECRET_BYTES} "
            "bytes, the same for all processes, or TLS_AUTO_DIR to the folder where "
            "run_orchestrator makes one"
        )
    SECRET_KEY = SECRET_KEY or "for-development-only-" + "0" * MIN_SECRET_BYTES
if SYNC_APP_ENV == "production" and not SYNC_TASK_API_KEYS:
    SYNC_TASK_API_KEYS = tuple(filter(None, [first_start_secret(TASK_API_KEY)]))

CELERY_BROKER_URL = SYNC_BROKER_URL or "memory://localhost/"
CELERY_TASK_DEFAULT_QUEUE = "sync"
CELERY_TASK_TIME_LIMIT = 600
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, object] = (
    dict(SYNC_BROKER_OPTIONS) if SYNC_BROKER_URL else {"polling_interval": 0.01}
)

ALLOWED_HOSTS = ["*"]  # the API answers itself; no URL is built from Host
INSTALLED_APPS = [
    "sync_stack.orchestrator",
    "sync_stack.watcher",
    "sync_stack.gateway",  # its command: it has no rows
]
if DATABASES:
    INSTALLED_APPS += apps_of_store(DB_DRIVER)
MIDDLEWARE: list[str] = []
SILENCED_SYSTEM_CHECKS = [f"security.W{number:03d}" for number in (1, 2, 3, 4, 8)]
_environment = Environment(os.environ)
LOG_LEVEL = _environment.log_level()
if _environment.problems:
    raise ImproperlyConfigured("; ".join(_environment.problems))
LOGGING = logging_settings(  # what `sync` prints is its own: log lines go beside it
    LOG_LEVEL,
    stream="stderr" if _COMMAND == "sync" else "stdout",
)
