"""The `up` that runs on this machine: found by its data folder, without a login.

`up` holds `up.lock` in that folder while it runs, and writes `up.token` there: its address on the
loopback and a token of the person that it made, which its next start replaces.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from partita_client import conf
from partita_client.addresses import parse_address
from partita_client.errors import BadConfiguration, ClientError, NoServer
from partita_client.project import find_project

TOKEN_FILE: Final = "up.token"  # noqa: S105 - the name of a file
_LOCK_FILE: Final = "up.lock"
_MAX_BYTES: Final = 4096
_OF_OTHERS: Final = 0o077


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalUp:
    folder: Path
    url: str
    token: str = field(repr=False)
    pages_url: str = ""  # what people type, such as http://localhost:8090


def find_local_up() -> LocalUp | None:
    """Return the running `up` of the usual folder, else the only one of this user.

    Where DATA_DIR or a partita.toml says which folder is meant, no other one is taken. Raise
    NoServer where others run instead, or several do.
    """
    folder = usual_folder()
    if is_in_use(folder):
        return read_up(folder)
    running = running_folders()
    lines = "\n".join(f"  DATA_DIR={each}" for each in running)
    if running and (conf.variable("DATA_DIR") or find_project()):
        raise NoServer(f"no `up` runs with DATA_DIR={folder}, but with:\n{lines}", advice=_WHICH)
    if len(running) > 1:
        raise NoServer(f"more than one `up` runs on this machine:\n{lines}", advice=_WHICH)
    return read_up(running[0]) if running else None


def usual_folder() -> Path:
    """Return the data folder that is meant here: DATA_DIR, or `var` beside partita.toml, or here.

    Raise BadConfiguration.
    """
    if given := conf.variable("DATA_DIR"):
        return Path(given).absolute()
    project = find_project()
    return project.folder / "var" if project else Path("var").absolute()


_WHICH: Final = "partita up, or set DATA_DIR to the one that you mean"


def running_folders() -> list[Path]:
    """Return the data folders of all `up` of this user that run now."""
    found = []
    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: no home folder is known
        for note in sorted(conf.notes_of_ups().iterdir()):
            folder = Path(note.read_text(encoding="utf-8"))
            if is_in_use(folder):
                found.append(folder)
    return found


def is_in_use(folder: Path) -> bool:
    """Return whether an `up` holds the lock of a data folder."""
    try:
        with (folder / _LOCK_FILE).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # the folder is not there, or is not ours
        return False
    return False


def read_up(folder: Path) -> LocalUp:
    """Return address and token of the `up` that runs with this folder; raise NoServer.

    Raise BadConfiguration for a file that others could have written or read, and for an address
    outside of this machine.
    """
    file = folder / TOKEN_FILE
    try:
        with file.open("rb") as opened:
            _require_own(file, os.fstat(opened.fileno()))
            text = opened.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise NoServer(
            f"an `up` runs with DATA_DIR={folder}, but left no {TOKEN_FILE} ({error.strerror}): it "
            "is just starting, or listens beyond this machine alone",
            advice="wait until it serves, or sign in: partita login URL",
        ) from None
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    url, token = values.get("PARTITA_URL", ""), values.get("PARTITA_TOKEN", "")
    if not url or not token or not parse_address(url).is_loopback:
        raise BadConfiguration(
            f"{file} names no address of this machine and token", advice="start `up` again"
        )
    pages = values.get("PARTITA_PAGES", "")
    return LocalUp(folder=folder, url=url, token=token, pages_url=pages)


def token_of_up(folder: Path) -> str:
    """Return the token that the `up` of this folder has now, empty where there is none."""
    try:
        return read_up(folder).token
    except ClientError:  # it is just starting, or has ended
        return ""


def _require_own(file: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & _OF_OTHERS:
        raise BadConfiguration(
            f"{file} belongs to or can be read by others: it is not used",
            advice="start `up` again, which closes the file to others",
        )
