"""The embedded defaults of `up`: SQLite and secrets generated once, kept in the data folder."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from platform_site.settings import env

FILE_NAME = "up.env"
LISTENER_FILE_NAME = "up.listener.env"  # where the running or last `up` listens, and its runtime


def prepare(data_dir: Path) -> None:
    """Write `<data_dir>/up.env` when it is missing; an existing one is never changed."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (data_dir / FILE_NAME).exists():
            _write(data_dir / FILE_NAME)
    except OSError as error:
        raise ImproperlyConfigured(f"DATA_DIR={data_dir}: {error.strerror}") from None


def _write(path: Path) -> None:
    lines = [
        "# Written by `manage.py up`; the environment wins over it. Keep it secret.",
        f"DB_DRIVER={env.text('DB_DRIVER', 'sqlite')}",
        f"JWT_SECRET={env.secret('JWT_SECRET') or secrets.token_urlsafe(48)}",
        f"AGENT_SHARED_SECRET={env.secret('AGENT_SHARED_SECRET') or secrets.token_urlsafe(32)}",
        f"ADMIN_EMAIL={env.text('ADMIN_EMAIL', 'admin@partita.local')}",
        f"ADMIN_PASSWORD={env.secret('ADMIN_PASSWORD') or secrets.token_urlsafe(9)}",
        "",
    ]
    scratch = path.with_suffix(".new")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    scratch.replace(path)


def log_handlers(data_dir: Path) -> dict[str, dict[str, object]]:
    """`stderr` and `audit` of LOGGING, both into `<data_dir>/up.log` (10 MB, one older kept)."""
    into_file = {
        "class": "logging.handlers.RotatingFileHandler",
        "filename": str(data_dir / "up.log"),
        "maxBytes": 10_000_000,
        "backupCount": 1,
        "delay": True,
    }
    return {
        "stderr": {**into_file, "formatter": "line", "filters": ["request_id"]},
        "audit": {**into_file, "formatter": "bare"},
    }
