"""`partita init`: partita.toml, a first suite and a line of .gitignore in one's own repository."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apps.suites.authoring import suite_files
from apps.suites.sources import folders
from kernel.errors import InvalidInput, PlatformError, known_names
from kernel.ids import is_identifier, slug
from readers.project_file import (
    DEFAULT_SUITES,
    FILE_NAME,
    ProjectFileInvalid,
    find_project_file,
)

FALLBACK_NAME: Final = "first"  # for a folder whose name has neither letters nor digits
DATA_FOLDER: Final = "var"
_IGNORE_FILE: Final = ".gitignore"
_IGNORE_MODE: Final = 0o666  # less the umask
_MAX_IGNORE_BYTES: Final = 1024 * 1024
_IGNORE_LINE: Final = f"/{DATA_FOLDER}/"
_IGNORED_BY: Final = {f"{start}{DATA_FOLDER}{end}" for start in ("/", "") for end in ("/", "")}
_OTHER_NAME: Final = "choose another name: partita init --name NAME"
_TEXT: Final = """\
# Where Partita finds the suites of this repository (`partita help` lists the commands).
name = "{name}"
suites = "{suites}"          # one folder for each suite, with its suite.star
# modules = "modules"        # what load("@scope/module", …) finds besides Partita's own
# server = "https://partita.example.org"
"""


class RepositoryTaken(PlatformError):
    """Something is in the way of `init`; nothing was written."""

    code = "suite_exists"

    def __init__(self, fact: str, advice: str) -> None:
        super().__init__(f"{fact}: nothing was written; {advice}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRepository:
    """What `init` wrote: paths relative to `folder`, sorted.

    `left_out` says what is left to do by hand, "" if nothing is.
    """

    folder: Path
    suite_id: str
    suite: Path
    files: Sequence[str]
    left_out: str = ""


def init_repository(folder: Path, *, template: str, name: str = "") -> NewRepository:
    """Write partita.toml, a suite from a template and a line of .gitignore into a folder.

    `name`: of the repository and of its suite; empty: that of the folder. Nothing is overwritten.
    Raise InvalidInput and RepositoryTaken, before anything is written.
    """
    if template not in suite_files.starters():
        names = known_names(suite_files.starters())
        raise InvalidInput(f'there is no template "{template}"{names}')
    suite_id = name or slug(folder.resolve().name) or FALLBACK_NAME
    if not is_identifier(suite_id):
        raise InvalidInput(
            f"--name {suite_id!r}: a name begins with a letter or digit and has only letters, "
            "digits, '.', '_' and '-', at most 128"
        )
    suite = folder / DEFAULT_SUITES / suite_id
    _refuse_what_is_there(folder, suite)
    try:
        return _write(folder, suite, template)
    except OSError as error:
        raise InvalidInput(f"{error.filename or folder}: {error.strerror}") from None


def _refuse_what_is_there(folder: Path, suite: Path) -> None:
    taken = [path for path in (folder / FILE_NAME, suite) if _is_taken(path)]
    fact = " and ".join(map(str, taken)) + (" exist" if len(taken) > 1 else " exists")
    if folder / FILE_NAME in taken:
        raise RepositoryTaken(fact, f"add a suite: partita suite new {suite.parent}/NAME")
    if taken:
        raise RepositoryTaken(fact, _OTHER_NAME)
    if above := _project_above(folder):
        suites = f"{above.parent / DEFAULT_SUITES}/NAME"
        raise RepositoryTaken(
            f"{folder} is in the repository of {above}",
            f"add a suite to it: partita suite new {suites}",
        )


def _is_taken(path: Path) -> bool:
    if path.is_dir() and not path.is_symlink():
        return any(path.iterdir())
    return path.is_symlink() or path.exists()


def _project_above(folder: Path) -> Path | None:
    existing = next(each for each in (folder, *folder.absolute().parents) if each.is_dir())
    try:
        return find_project_file(existing.resolve())
    except ProjectFileInvalid:  # of somebody else: it does not speak for this folder
        return None


def _write(folder: Path, suite: Path, template: str) -> NewRepository:
    """Write the suite, then what names it, so that an error leaves no partita.toml behind."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [f"{suite.relative_to(folder)}/{path}" for path in _new_suite(suite, template)]
    obstacle = _ignore_file_obstacle(folder / _IGNORE_FILE)
    if not obstacle and _add_ignore_line(folder / _IGNORE_FILE):
        written.append(_IGNORE_FILE)
    text = _TEXT.format(name=suite.name, suites=DEFAULT_SUITES)
    with (folder / FILE_NAME).open("x", encoding="utf-8") as file:
        file.write(text)
    return NewRepository(
        folder=folder,
        suite_id=suite.name,
        suite=suite,
        files=sorted([*written, FILE_NAME]),
        left_out=obstacle,
    )


def _new_suite(suite: Path, template: str) -> Sequence[str]:
    try:
        return suite_files.new_suite(suite, template)
    except folders.FolderTaken:  # somebody was quicker
        raise RepositoryTaken(f"{suite} exists", _OTHER_NAME) from None


def _ignore_file_obstacle(path: Path) -> str:
    """Return why .gitignore is left as it is, "" where it may be read and written."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return ""
    if stat.S_ISREG(found.st_mode) and found.st_size <= _MAX_IGNORE_BYTES:
        return ""
    fact = f"is larger than {_MAX_IGNORE_BYTES} bytes"
    if not stat.S_ISREG(found.st_mode):
        fact = "is a symbolic link" if stat.S_ISLNK(found.st_mode) else "is not a file"
    return f"{path} {fact} and was left as it is: have Git ignore {_IGNORE_LINE} yourself"


def _add_ignore_line(path: Path) -> bool:
    """Append the line for the data folder to .gitignore unless it has it; return whether."""
    before = path.read_bytes() if path.exists() else b""
    lines = {line.strip() for line in before.decode(errors="replace").splitlines()}
    if lines & _IGNORED_BY:
        return False
    start = b"" if not before or before.endswith(b"\n") else b"\n"
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, _IGNORE_MODE), "ab") as file:
        file.write(start + f"{_IGNORE_LINE}\n".encode())
    return True
