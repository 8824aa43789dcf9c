"""The settings of suites."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from django.conf import settings

from apps.suites.domain.calls import Rules


def suites_dir() -> Path:
    return Path(settings.SUITES_DIR)


def data_dir() -> Path:
    return Path(settings.DATA_DIR)


def suite_registration() -> str:
    """Return who may register suites: `admin`, `members` or `off`."""
    allowed: str = settings.SUITE_REGISTRATION
    return allowed


def mock_base_url() -> str:
    """Return the address under which steps and people reach mocks."""
    return str(settings.MOCK_BASE_URL)


def module_folders() -> Sequence[Path]:
    """Return the folders of modules, the first one that has a module first: own, examples."""
    examples = Path(settings.BASE_DIR) / "examples" / "oci-modules"
    return tuple(dict.fromkeys((Path(settings.MODULES_DIR), examples)))


def max_nodes() -> int:
    """Return how many nodes a topology may have."""
    limit: int = settings.SUITE_MAX_NODES
    return limit


def env_prefixes() -> Sequence[str]:
    """Return the prefixes of the variables that every step gets."""
    prefixes: Sequence[str] = settings.STEP_ENV_PREFIXES
    return prefixes


def evaluation_rules(files: Iterable[str]) -> Rules:
    """Return the evaluator's limits and the package's paths (reference: control-plane 7.3)."""
    return {
        "maxNodes": max_nodes(),
        "maxTimeoutMs": round(settings.STEP_MAX_TIMEOUT_S * 1000),
        "defaultTimeoutMs": round(settings.STEP_DEFAULT_TIMEOUT_S * 1000),
        "maxMemory": settings.STEP_MAX_MEMORY,
        "maxCpu": settings.STEP_MAX_CPU,
        "defaultImages": dict(settings.STEP_DEFAULT_IMAGES),
        "files": sorted(files),
    }
