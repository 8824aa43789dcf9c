"""The settings of shells."""

from __future__ import annotations

from typing import Final

from django.conf import settings

ACCESS: Final = ("off", "owner", "members")


def access() -> str:
    """Return who may open shells: one of ACCESS."""
    return settings.SHELL_ACCESS


def most_per_workspace() -> int:
    return settings.SHELL_MAX


def idle_s() -> float:
    """Return after how many seconds without input and output a shell ends."""
    return settings.SHELL_IDLE_S


def keeps_audit_rows() -> bool:
    return bool(settings.AUDIT_ROWS)
