"""What the client reads from its environment, on each call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def variable(name: str) -> str:
    """Return a variable without the blanks around it, empty if it is not set."""
    return os.environ.get(name, "").strip()  # noqa: TID251 - the one place of the client


def environment() -> Mapping[str, str]:
    """Return the whole environment: the names of proxies come in upper and lower case."""
    return os.environ  # noqa: TID251 - the one place of the client


def home_folder(variable_name: str, *below_home: str) -> Path:
    """Return the folder of an XDG variable, else its default below the home folder."""
    given = variable(variable_name)
    return Path(given) if given else Path.home().joinpath(*below_home)


def config_file() -> Path:
    """Return the file of the contexts."""
    return home_folder("XDG_CONFIG_HOME", ".config") / "partita" / "config.json"


def notes_of_ups() -> Path:
    """Return the folder in which each `up` of this user notes its data folder."""
    return home_folder("XDG_STATE_HOME", ".local", "state") / "partita" / "up"
