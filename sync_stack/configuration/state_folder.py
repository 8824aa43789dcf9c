"""Secrets in the folder TLS_AUTO_DIR, where a first start made them (reference: sync-stack 7.3)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SECRET_KEY: Final = "secret-key"  # noqa: S105 - the name of a file
TASK_API_KEY: Final = "task-api-key"
WEBHOOK_SECRET: Final = "webhook-secret"  # noqa: S105 - the name of a file
_MAX_BYTES: Final = 2**16


class StateFolderUnusable(Exception):
    """A file in TLS_AUTO_DIR cannot be used; the message names it and says what to do."""


def read_secret(folder: Path, name: str) -> str:
    """Return a secret; empty where there is none. Raises StateFolderUnusable."""
    path = folder / name
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode("ascii").strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise StateFolderUnusable(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise StateFolderUnusable(f"{path}: holds no secret; remove it, and one is made") from None
