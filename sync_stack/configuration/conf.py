"""Typed readers of environment variables, and the settings that all sync processes share.

An empty variable counts as unset. Problems are collected: a refused start lists all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kernel.durations import parse_period_s

APP_ENVS: Final = ("production", "staging", "demo", "development", "test")
LOG_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")
_RENAMED: Final = {"prod": "production", "dev": "development", "WARN": "WARNING"}
_MAX_PORT: Final = 65_535
_FLAGS: Final = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}


class Environment:
    """Typed access to variables; `problems` has a line for each invalid one that was read."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables = variables
        self.problems: list[str] = []

    def text(self, name: str, default: str = "") -> str:
        return self.variables.get(name, "") or default

    def is_set(self, name: str) -> bool:
        return bool(self.variables.get(name))

    def words(self, name: str) -> tuple[str, ...]:
        """Return the items of a comma-separated list without blanks."""
        return tuple(word.strip() for word in self.text(name).split(",") if word.strip())

    def flag(self, name: str, *, default: bool) -> bool:
        raw = self.text(name, str(default)).strip().lower()
        if raw not in _FLAGS:
            self.wrong(name, "expected true or false")
        return _FLAGS.get(raw, default)

    def integer(self, name: str, default: int, *, low: int = 0, high: int = 2**53) -> int:
        raw = self.text(name, str(default)).strip()
        digits = raw.removeprefix("-")
        fits = digits.isascii() and digits.isdigit() and len(digits) < len(str(2**53))
        if not fits or not low <= int(raw) <= high:
            self.wrong(name, f"expected a whole number, {low} to {high}")
            return default
        return int(raw)

    def duration_s(
        self, name: str, default: str, *, low: float = 0, high: float = 86_400 * 365
    ) -> float:
        """Return the seconds of `500ms`, `1h30m`, `7d` or a whole number."""
        try:
            seconds = parse_period_s(self.text(name, default).strip())
        except ValueError:
            self.wrong(name, "expected a duration such as 500ms, 30s, 1h30m or 7d")
            return parse_period_s(default)
        if not low <= seconds <= high:
            self.wrong(name, f"expected {low:g}s to {high:g}s")
        return seconds

    def address(self, name: str, default: str) -> tuple[str, int]:
        """Return host and port of `host:port` or `:port`; an empty host means every interface."""
        host, separator, port = self.text(name, default).strip().rpartition(":")
        fits = port.isascii() and port.isdigit() and len(port) <= len(str(_MAX_PORT))
        if not separator or not fits or int(port) > _MAX_PORT:
            self.wrong(name, "expected host:port or :port")
            return "", 0
        return host.strip("[]"), int(port)

    def choice(self, name: str, default: str, options: tuple[str, ...]) -> str:
        """Return one of the options, in any case; accept `prod`, `dev` and `WARN`."""
        raw = self.text(name, default).strip()
        words = {word.lower(): word for word in options}
        words |= {old.lower(): new for old, new in _RENAMED.items() if new in options}
        if raw.lower() not in words:
            self.wrong(name, f"expected one of {', '.join(options)}")
        return words.get(raw.lower(), default)

    def app_env(self, default: str = "development") -> str:
        return self.choice("APP_ENV", default, APP_ENVS)

    def log_level(self) -> str:
        return self.choice("LOG_LEVEL", "INFO", LOG_LEVELS)

    def wrong(self, name: str, expected: str) -> None:
        self.problems.append(f"{name}={self.variables.get(name, '')!r}: {expected}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSettings:
    """The bundle's file, how strictly it is read, and how often it is checked (0 for never).

    `name` replaces the path in messages and gives the suffix, for a file mounted elsewhere.
    """

    path: Path = Path("config.cue")
    name: str = ""
    strict: bool = False
    reload_interval_s: float = 10.0
    production: bool = False
    cue_binary: str = ""

    @property
    def file(self) -> str:
        """Return the name of the file for messages."""
        return self.name or str(self.path)


def process_environment() -> Mapping[str, str]:
    """Return the live variables of this process, also for `{env: NAME}` secrets."""
    return os.environ  # noqa: TID251


def bundle_settings(environment: Environment, *, app_env: str) -> BundleSettings:
    """Read the settings; problems are added to the environment."""
    return BundleSettings(
        path=Path(environment.text("CONFIG_PATH", "config.cue")),
        name=environment.text("CONFIG_NAME"),
        strict=environment.flag("BUNDLE_STRICT", default=False),
        reload_interval_s=environment.duration_s("BUNDLE_RELOAD_INTERVAL", "10s"),
        production=app_env == "production",
        cue_binary=environment.text("CUE_BINARY"),
    )
