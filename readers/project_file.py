"""partita.toml: where a repository keeps its suites (reference: control-plane 6.4).

The wheel of the client has this file alone, so it imports nothing of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import urlsplit

FILE_NAME: Final = "partita.toml"
MAX_BYTES: Final = 64 * 1024
MAX_TEXT: Final = 1024
DEFAULT_SUITES: Final = "suites"
KEYS: Final = ("name", "suites", "modules", "server")

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_POSITION: Final = re.compile(
    r"(?P<what>.*?) \(at (line (?P<line>\d+), column (?P<column>\d+)|end of document)\)"
)


class ProjectFileInvalid(ValueError):
    """partita.toml breaks a rule; the message is `FILE:LINE: what is wrong, and what to write`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFile:
    """What partita.toml says; `suites` and `modules` are folders below that of the file.

    `lines`: the line of each key that it has.
    """

    path: Path
    name: str
    suites: Path
    modules: Path | None = None
    server: str = ""
    lines: Mapping[str, int] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.path.parent

    def place_of(self, key: str) -> str:
        """Return `FILE:LINE` of a key, the file alone where the file leaves the key out."""
        return f"{self.path}:{self.lines[key]}" if key in self.lines else str(self.path)


def project_of_working_folder() -> ProjectFile | None:
    """Return what the partita.toml of the working folder says, None without one.

    Raise ProjectFileInvalid.
    """
    try:
        home = Path.home().resolve()
    except RuntimeError:  # nobody knows it
        home = None
    try:
        here = Path.cwd()
    except FileNotFoundError:  # somebody removed it
        return None
    path = find_project_file(here, home)
    return read_project_file(path) if path else None


def find_project_file(start: Path, home: Path | None = None) -> Path | None:
    """Return the partita.toml of a folder or of the nearest one above it, None without one.

    The search ends at the root of a Git repository, at `home`, and where a folder belongs to
    somebody else. Raise ProjectFileInvalid for a file above `start` that is not of the owner of
    its folder: in a shared folder such as /tmp anybody could have put it there.
    """
    start = start.absolute()
    for folder in _searched_folders(start, home):
        path = folder / FILE_NAME
        if (owner := _owner(path)) is None:
            continue
        if folder != start and owner != _owner(folder):
            raise ProjectFileInvalid(
                f"{path}: the file and its folder belong to different users; run the command in "
                f"{folder}, or name the folder of the suites by SUITES_DIR"
            )
        return path
    return None


def _searched_folders(start: Path, home: Path | None) -> Iterator[Path]:
    owner = _owner(start)
    for folder in (start, *start.parents):
        if owner is None or _owner(folder) != owner:
            return
        yield folder
        if folder == home or (folder / ".git").exists():
            return


def _owner(path: Path) -> int | None:
    """Return who owns a file or folder, None of one that is not there or not to be seen."""
    try:
        return path.stat().st_uid
    except OSError:
        return None


def read_project_file(path: Path) -> ProjectFile:
    """Return what a partita.toml says; raise ProjectFileInvalid."""
    import tomllib  # most commands of a client find no such file

    text = _read_text(path)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(path, text, str(error)) from None
    return _KeysOfFile(path, text, document).read()


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ProjectFileInvalid(f"{path}: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise ProjectFileInvalid(f"{path}: the file is larger than {MAX_BYTES // 1024} KiB")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ProjectFileInvalid(f"{path}:{line}: the file is not UTF-8") from None


def _syntax_error(path: Path, text: str, message: str) -> ProjectFileInvalid:
    found = _POSITION.fullmatch(message)
    if found is None:
        return ProjectFileInvalid(f"{path}: this is not TOML: {message}")
    last = len(text.splitlines()) or 1
    place = f"{found['line']}:{found['column']}" if found["line"] else str(last)
    return ProjectFileInvalid(f"{path}:{place}: this is not TOML: {found['what']}")


class _KeysOfFile:
    """Reads the keys of one document; each error names the line of its key."""

    def __init__(self, path: Path, text: str, document: Mapping[str, object]) -> None:
        self._path = path
        self._document = document
        lines = text.splitlines()
        self._lines = {key: line for key in document if (line := _line_of(key, lines))}

    def read(self) -> ProjectFile:
        for key in self._document:
            if key not in KEYS:
                raise self._error(key, f'"{key}" is not a key of this file; {_advice_for(key)}')
        return ProjectFile(
            path=self._path,
            name=self._name(),
            suites=self._folder("suites", DEFAULT_SUITES) or self._path.parent,
            modules=self._folder("modules", ""),
            server=self._server(),
            lines=self._lines,
        )

    def _error(self, key: str, reason: str) -> ProjectFileInvalid:
        line = self._lines.get(key)
        place = f"{self._path}:{line}" if line else str(self._path)
        return ProjectFileInvalid(f"{place}: {reason}")

    def _text(self, key: str, example: str, default: str) -> str:
        value = self._document.get(key, default)
        if not isinstance(value, str):
            raise self._error(key, f"{key} must be a string, such as {key} = {example}")
        if len(value) > MAX_TEXT:
            raise self._error(key, f"{key} is longer than {MAX_TEXT} characters")
        if key in self._document and not value.strip():
            raise self._error(key, f"{key} is empty; write {key} = {example}, or leave it out")
        return value

    def _name(self) -> str:
        name = self._text("name", '"shop"', "")
        if name and not _NAME.fullmatch(name):
            raise self._error(
                "name",
                f"name = {name!r} must begin with a letter or digit and have only letters, "
                "digits, '.', '_' and '-', at most 128",
            )
        return name or self._path.parent.name

    def _folder(self, key: str, default: str) -> Path | None:
        value = self._text(key, f'"{key}"', default)
        if not value:
            return None
        written = PurePosixPath(value)
        if written.is_absolute() or ".." in written.parts or "\0" in value:
            raise self._error(
                key, f"{key} = {value!r} must be a folder below that of {FILE_NAME}, without '..'"
            )
        return self._path.parent / written

    def _server(self) -> str:
        server = self._text("server", '"https://partita.example.org"', "").rstrip("/")
        if server and not _is_address(server):
            raise self._error(
                "server",
                "server must be an address such as https://partita.example.org, without user, "
                "password, query and fragment",
            )
        return server


def _advice_for(key: str) -> str:
    import difflib  # for mistakes alone

    near = difflib.get_close_matches(key.lower()[:40], KEYS, n=1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(KEYS)}"


def _line_of(key: str, lines: Sequence[str]) -> int:
    """Return the line of a key or table, 0 where it is written in a way that is not looked for."""
    written = re.compile(rf"""\s*\[*\s*["']?{re.escape(key)}["']?\s*[].=]""")
    return next((number for number, line in enumerate(lines, 1) if written.match(line)), 0)


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:  # a port that is not a number, brackets around no IPv6 address
        return False
    is_bare = not (parts.query or parts.fragment or parts.username or parts.password)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and is_bare and port != 0
