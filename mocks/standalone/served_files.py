"""The files that `mock serve` serves: a suite's folder, a folder of contracts, or one contract.

    files = ServedFiles(place)
    reading = files.read(base_url)      # raises PlatformError for what breaks a rule for packages
    files.signature()                   # changes with the files that are read

Nothing here knows Django or a store, so that the command starts at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import quote

from kernel.errors import FieldError, FileWarning, PlatformError
from kernel.ids import humanize, is_identifier
from mocks.model.ports import SpaceContent
from readers import Unreadable
from readers.archive import content_digest
from readers.folder import BrokenPackage, broken_text_rule, read_folder, state_of
from readers.yaml import read_yaml
from surfaces import surfaces_of
from surfaces.contracts import identifier
from surfaces.hydration import FOLDERS
from surfaces.model import Surface

SUITE_FILE: Final = "suite.star"
_OF_A_SUITE: Final = (SUITE_FILE, "api", "mock")
_CONTRACTS: Final = (".yaml", ".yml", ".json", ".proto", ".graphql", ".graphqls", ".gql", ".wsdl")
_DOCUMENTS: Final = (".yaml", ".yml", ".json", ".cue")
_MOCKED: Final = (*_CONTRACTS, ".cue")  # endings of what the mocks of a suite come from
# what an example may have as its bodyFile or externalValue, read where one names it
_BODIES: Final = (
    ".txt", ".xml", ".html", ".htm", ".csv", ".svg", ".js", ".css", ".b64", ".base64", ".bin",
)  # fmt: skip
_NAMED: Final = (*_DOCUMENTS, *_BODIES)
_ABOUT: Final = ("metadata.yaml", "metadata.yml", "README.md")
_BELOW: Final = "api/"  # where contracts are that come without the folders of a suite


class NothingToServe(PlatformError):
    """Neither a file, a folder nor the id of a suite; or nothing in it that can be simulated."""

    code = "suite_not_found"


class FilesRefused(PlatformError):
    code = "package_invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the files say at a moment."""

    content: SpaceContent
    warnings: tuple[FileWarning, ...]

    @property
    def operations(self) -> int:
        return sum(len(surface.operations) for surface in self.content.surfaces)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedFiles:
    """The files by path; `broken` are those whose content breaks a rule for packages."""

    files: Mapping[str, bytes]
    broken: tuple[FieldError, ...]


class ServedFiles:
    """The files at one place; `suite_id` names the space that serves them."""

    def __init__(self, place: Path) -> None:
        self.place = place.resolve()
        self.is_file = self.place.is_file()
        self.is_suite = any((self.place / name).exists() for name in _OF_A_SUITE)
        name = self.place.stem if self.is_file else self.place.name
        self.suite_id = name if is_identifier(name) else identifier(name, "suite")
        self._named: frozenset[str] = frozenset()

    @classmethod
    def find(cls, text: str, suites_folder: Path | None = None) -> ServedFiles:
        """Return the files at a path, otherwise those of the suite with that id, if any is known.

        Raise NothingToServe.
        """
        place = Path(text)
        if place.exists():
            return cls(place)
        if suites_folder is None:
            raise NothingToServe(f'"{text}" is neither a folder nor a file here')
        if is_identifier(text) and (suites_folder / text / SUITE_FILE).is_file():
            return cls(suites_folder / text)
        raise NothingToServe(
            f'"{text}" is neither a folder or file here nor a suite of {suites_folder}'
        )

    def signature(self) -> Hashable:
        """Return what changes with the files that are read, and with no other ones.

        A log or a note in the folder may change as it likes.
        """
        if not self.is_file:
            return tuple(filter(None, map(self._watch, state_of(self.place).signature)))
        try:
            facts = self.place.stat()
        except OSError as error:
            return error.errno
        return facts.st_mtime_ns, facts.st_size, facts.st_ino

    def read(self, base_url: str) -> Reading:
        """Read everything anew; raise FilesRefused, and NothingToServe without any operation."""
        collected = self.collect()
        for broken in collected.broken:
            raise FilesRefused(f"{broken.file} {broken.detail}", errors=[broken])
        reading = self.understand(collected.files, base_url)
        self.require_operations(reading)
        return reading

    def collect(self) -> CollectedFiles:
        """Read the files that mocks come from; raise FilesRefused for a rule about the folder."""
        broken: list[BrokenPackage] = []
        try:
            files = dict(self._contents(broken.append))
        except BrokenPackage as error:
            refused = self._as_error(error)
            raise FilesRefused(f"{refused.file} {error.reason}", errors=[refused]) from None
        return CollectedFiles(
            files=self._without_unread(files),
            broken=tuple(self._as_error(each) for each in broken if not _is_body(each.path)),
        )

    def understand(self, files: Mapping[str, bytes], base_url: str) -> Reading:
        """Return what the files say."""
        surfaces, warnings = surfaces_of(files, suite_id=self.suite_id, base_url=base_url)
        about = _about(files)
        content = SpaceContent(
            suite_id=self.suite_id,
            title=about.get("title") or self._title_of(surfaces),
            repository=about.get("repository") or f"workspace/{self.suite_id}",
            generation=content_digest(files),
            surfaces=surfaces,
            files=files,
        )
        shown = tuple(
            replace(each, file=each.file and self.in_place(each.file)) for each in warnings
        )
        return Reading(content=content, warnings=shown)

    def require_operations(self, reading: Reading) -> None:
        """Raise NothingToServe where there is no operation, with the reasons."""
        if not reading.operations:
            errors = [_as_error(warning) for warning in reading.warnings]
            raise NothingToServe(f"{self.place} declares no operation: {_WANTED}", errors=errors)

    def path_of(self, place: str) -> str:
        """Return the path by which `files` have a file that is shown as lying at a place."""
        return place if self.is_suite else f"{_BELOW}{place}"

    def _contents(
        self, leave_out: Callable[[BrokenPackage], object]
    ) -> Iterator[tuple[str, bytes]]:
        if self.is_file:
            yield (path := f"{_BELOW}{self.place.name}"), _content(self.place, path)
        elif self.is_suite:
            endings = (*_MOCKED, *_BODIES, ".md")
            yield from read_folder(self.place, endings=endings, leave_out=leave_out)
        else:
            yield from read_folder(
                self.place, below=_BELOW, endings=_CONTRACTS, leave_out=leave_out
            )

    def _as_error(self, broken: BrokenPackage) -> FieldError:
        path = self.in_place(broken.path)
        return FieldError(code="package_invalid", detail=broken.reason, file=path)

    def _without_unread(self, files: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return the files that mocks come from.

        Those are contracts and mocks, what says something about the suite, and the documents
        and bodies elsewhere that one of them names, as `$ref`, `mockPath` and `bodyFile` do.
        """
        if not self.is_suite:
            return dict(files)
        read = {path: text for path, text in files.items() if _is_always_read(path)}
        others = {path for path in files if path.lower().endswith(_NAMED)} - read.keys()
        texts = list(read.values())
        while texts:
            found = {path for path in others if any(_names(text, path) for text in texts)}
            others -= found
            texts = [files[path] for path in found]
            read.update((path, files[path]) for path in found)
        self._named = frozenset(path for path in read if not _is_always_read(path))
        return {path: read[path] for path in files if path in read}

    def _watch(self, state: tuple[str, int, int, int]) -> tuple[str, int, int, int] | None:
        """Return what is watched of the state of a file; None for one that is not read.

        A document that nothing names is watched for its being there: an edit may name it.
        """
        path, *mark = state
        if not any(mark):  # the folder breaks a rule
            return state
        if not self.is_suite:
            return state if path.lower().endswith(_CONTRACTS) else None
        if _is_always_read(path) or path in self._named:
            return state
        return (path, 0, 0, 0) if path.lower().endswith(_NAMED) else None

    def _title_of(self, surfaces: Sequence[Surface]) -> str:
        """Return the title of files that say none: that of a contract which is alone."""
        if not self.is_suite and len(surfaces) == 1:
            return surfaces[0].title
        return humanize(self.suite_id) or self.suite_id

    def in_place(self, path: str) -> str:
        """Return a file's path as it is where it lies."""
        return path if self.is_suite else path.removeprefix(_BELOW)


def _is_always_read(path: str) -> bool:
    return path in _ABOUT or (path.startswith(FOLDERS) and path.lower().endswith(_MOCKED))


def _is_body(path: str) -> bool:
    return path.lower().endswith(_BODIES)


def _names(text: bytes, path: str) -> bool:
    """Return whether a text may refer to a file; a reference may lack the file's ending."""
    stem = PurePosixPath(path).stem
    return stem.encode() in text or quote(stem).encode() in text


_WANTED: Final = "expected contracts (OpenAPI, AsyncAPI, .proto, GraphQL, WSDL) or mocks"


def _content(file: Path, path: str) -> bytes:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise BrokenPackage(f"cannot be read: {error.strerror}", path) from None
    if broken := broken_text_rule(path, content):
        raise BrokenPackage(broken, path)
    return content


def _as_error(warning: FileWarning) -> FieldError:
    return FieldError(
        code=warning.code,
        detail=warning.detail,
        file=warning.file,
        line=warning.line,
        column=warning.column,
    )


def _about(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the title and the repository as the metadata or the README say them.

    Metadata that cannot be read say nothing: they change no answer but in templates.
    """
    texts: dict[str, str] = {}
    for path in _ABOUT:
        text = files.get(path, b"").decode(errors="replace")
        if path.endswith(".md"):
            lines = [line.strip("# \t") for line in text.splitlines()]
            texts.setdefault("title", next(filter(None, lines), ""))
        else:
            texts = {**_metadata(text), **texts}
    return texts


def _metadata(text: str) -> dict[str, str]:
    try:
        root = read_yaml(text)
    except Unreadable:
        return {}
    levels = [level for level in (root.get("metadata"), root.get("spec"), root) if level]
    return {
        key.text: value.text
        for level in levels  # flat keys win
        for key, value in level.pairs or ()
        if key.text in ("title", "repository") and value.text
    }
