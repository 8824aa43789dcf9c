"""The webhook gateway: no store, no accounts; sync_stack/gateway/conf.py reads its variables."""

from __future__ import annotations

INSTALLED_APPS = ["sync_stack.gateway"]
DATABASES: dict[str, object] = {}
MIDDLEWARE: list[str] = []
USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = False
LOGGING_CONFIG = None  # the process sets up its own log lines
