"""The settings of profiles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from django.conf import settings
from django.utils.module_loading import import_string

from apps.profiles.domain.drafts import DraftRules
from kernel.mirrored_file import MirroredFile

_MAX_FILE_BYTES: Final = 32 * 2**20


def profiles_file() -> MirroredFile:
    """Return svc-profiles.yaml."""
    return MirroredFile(Path(settings.PROFILES_FILE), _MAX_FILE_BYTES)


def profile_writers() -> str:
    """Return PROFILE_WRITES: `members`, `admin`, or empty where it is not set."""
    return str(settings.PROFILE_WRITES)


def env_prefixes() -> Sequence[str]:
    prefixes: Sequence[str] = settings.STEP_ENV_PREFIXES
    return prefixes


def draft_rules() -> DraftRules:
    """Return the rules for writes; those of secrets belong to what resolves them."""
    return DraftRules(
        env_prefixes=env_prefixes(),
        reference_problem=import_string(settings.SECRET_REFERENCE_RULE),
    )
