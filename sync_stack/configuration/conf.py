"""Settings that all processes of the sync stack share, from their environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sync_stack.configuration.environment import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSettings:
    """Where the bundle is, how strictly it is read, how often its file is checked (0: never).

    `name` is the file's name for messages and for its suffix, where `path` is only where it was
    mounted; empty: the path.
    """

    path: Path = Path("config.cue")
    name: str = ""
    strict: bool = False
    reload_interval_s: float = 10.0
    production: bool = False
    cue_binary: str = ""

    @property
    def file(self) -> str:
        """As messages name it."""
        return self.name or str(self.path)


def process_environment() -> Mapping[str, str]:
    """The variables of this process, read at each use: `{env: NAME}` secrets come from here."""
    return os.environ  # noqa: TID251


def bundle_settings(environment: Environment, *, app_env: str) -> BundleSettings:
    """What is wrong is in the environment's `problems`."""
    return BundleSettings(
        path=Path(environment.text("CONFIG_PATH", "config.cue")),
        name=environment.text("CONFIG_NAME"),
        strict=environment.flag("BUNDLE_STRICT", default=False),
        reload_interval_s=environment.duration_s("BUNDLE_RELOAD_INTERVAL", "10s"),
        production=app_env == "production",
        cue_binary=environment.text("CUE_BINARY"),
    )
