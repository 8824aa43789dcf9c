"""The archive of a store: a ZIP file with one member of JSON lines for each table, and a manifest.

    tables/<app>.<Model>.jsonl    one row a line: an object of columns, keys sorted, ASCII only
    manifest.json                 the last member; see `BackupManifest`

Rows stream in both directions: memory is bounded by the longest row, and nothing is unpacked to
disk. What comes from outside is checked in full before a row of it is used. Guide:
docs/guides/backup-and-restore.md.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from kernel.errors import InvalidInput

FORMAT: Final = "partita-store"
FORMAT_VERSION: Final = 1
ARTIFACTS_ELSEWHERE: Final = "(ARTIFACT_STORAGE)"  # in an entry of `not_included`
MANIFEST: Final = "manifest.json"
MAX_ROW_BYTES: Final = 64 * 2**20
MAX_MANIFEST_BYTES: Final = 4 * 2**20
# Beyond both, an archive is taken for a ZIP bomb: Partita's own shrink by 5 to 30.
PLAIN_BYTES: Final = 2**30
PLAIN_RATIO: Final = 200
Row = dict[str, object]


class ArchiveInvalid(InvalidInput):
    """The archive is damaged, was made by something else, or asks for too much."""


@dataclass(frozen=True, slots=True)
class TableSummary:
    """One table: `sha256` is that of its JSON lines, as `unzip -p ARCHIVE MEMBER` prints them."""

    model: str
    rows: int
    bytes: int
    sha256: str

    @property
    def member(self) -> str:
        return f"tables/{self.model}.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupManifest:
    """What an archive holds and from where.

    `migrations`: app label → the names of its migrations that the store had, in order.
    `keys`: fingerprints of the encryption keys, current one first; the keys are not in the archive.
    """

    created_at: str
    partita: str
    store: str
    installation: str
    migrations: Mapping[str, tuple[str, ...]]
    tables: tuple[TableSummary, ...]
    keys: tuple[str, ...]
    not_included: tuple[str, ...] = field(default=())

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.tables)

    @property
    def has_all_artifacts(self) -> bool:
        """Return whether the bytes of every artifact are in the archive."""
        return not any(ARTIFACTS_ELSEWHERE in each for each in self.not_included)

    def as_document(self) -> dict[str, object]:
        head = {"format": FORMAT, "formatVersion": FORMAT_VERSION}
        body = asdict(self)
        return head | {_CAMEL.get(name, name): value for name, value in body.items()}


_CAMEL: Final = {"created_at": "createdAt", "not_included": "notIncluded"}


class LinesDigest:
    """Counts and hashes the lines of one table as they pass."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._rows = self._bytes = 0
        self._hash = hashlib.sha256()

    def update(self, line: bytes) -> None:
        self._rows += 1
        self._bytes += len(line)
        self._hash.update(line)

    def summary(self) -> TableSummary:
        return TableSummary(self._model, self._rows, self._bytes, self._hash.hexdigest())


def encode_row(row: Row) -> bytes:
    """Return the line of a row; equal rows have equal lines."""
    return json.dumps(row, sort_keys=True, separators=(",", ":")).encode("ascii") + b"\n"


class ArchiveWriter:
    """Writes an archive into a binary stream, table by table, then the manifest."""

    def __init__(self, stream: BinaryIO) -> None:
        self._zip = zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=6)

    def write_table(self, model: str, lines: Iterable[bytes]) -> TableSummary:
        digest = LinesDigest(model)
        member = TableSummary(model, 0, 0, "").member
        with self._zip.open(member, "w", force_zip64=True) as table:
            for line in lines:
                if len(line) > MAX_ROW_BYTES:
                    raise ArchiveInvalid(f"a row of {model} has more than {MAX_ROW_BYTES} bytes")
                digest.update(line)
                table.write(line)
        return digest.summary()

    def close(self, manifest: BackupManifest) -> None:
        self._zip.writestr(MANIFEST, json.dumps(manifest.as_document(), indent=2))
        self._zip.close()


class ArchiveReader:
    """An archive from outside. Every method raises ArchiveInvalid, which names the file.

    `max_bytes`: how much the tables may expand to; None: PLAIN_BYTES, or PLAIN_RATIO times the
    size of the file where that is more.
    """

    def __init__(self, path: Path, *, max_bytes: int | None = None) -> None:
        self._path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise self._invalid(f"it is not a complete archive: {error}") from None
        self.manifest = self._read_manifest()
        self._check_members()
        size = path.stat().st_size
        self._check_expanded(max_bytes or max(PLAIN_BYTES, PLAIN_RATIO * size))

    def close(self) -> None:
        self._zip.close()

    def verify(self) -> Iterator[TableSummary]:
        """Read each table as a whole and yield it once its rows and its hash are right."""
        for table in self.manifest.tables:
            for _line in self.lines(table):
                pass
            yield table

    def lines(self, table: TableSummary) -> Iterator[bytes]:
        """Yield the lines of a table; at its end, raise if they are not what the manifest says."""
        digest = LinesDigest(table.model)
        try:
            with io.BufferedReader(self._zip.open(table.member)) as stream:  # type: ignore[type-var]
                while line := stream.readline(MAX_ROW_BYTES + 1):
                    if len(line) > MAX_ROW_BYTES:
                        raise self._invalid(
                            f"{table.member}: a row has more than {MAX_ROW_BYTES} bytes"
                        )
                    digest.update(line)
                    yield line
        except _UNREADABLE as error:
            raise self._invalid(f"{table.member} is damaged: {error}") from None
        found = digest.summary()
        if found.sha256 != table.sha256:
            raise self._invalid(
                f"{table.member} has the SHA-256 {found.sha256}, the manifest says {table.sha256}"
            )
        if (found.rows, found.bytes) != (table.rows, table.bytes):
            raise self._invalid(
                f"{table.member} has {found.rows} rows in {found.bytes} bytes, the manifest says"
                f" {table.rows} in {table.bytes}"
            )

    def decode(self, table: TableSummary, number: int, line: bytes) -> Row:
        """Return the object of a line; `number` counts from 1."""
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise self._invalid(f"{table.member}, line {number}: expected a JSON object")
        return row

    def _read_manifest(self) -> BackupManifest:
        try:
            with self._zip.open(MANIFEST) as member:
                content = member.read(MAX_MANIFEST_BYTES + 1)
        except KeyError:
            raise self._invalid(f"it has no {MANIFEST}: it is not from `store backup`") from None
        except _UNREADABLE as error:
            raise self._invalid(f"{MANIFEST} is damaged: {error}") from None
        if len(content) > MAX_MANIFEST_BYTES:
            raise self._invalid(f"{MANIFEST} has more than {MAX_MANIFEST_BYTES} bytes")
        try:
            return _manifest_of(json.loads(content))
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            raise self._invalid(f"{MANIFEST}: {error}") from None

    def _check_members(self) -> None:
        """Refuse what the manifest does not name, such as a path outside `tables/`."""
        names = [each.filename for each in self._zip.infolist()]
        wanted = {MANIFEST, *(each.member for each in self.manifest.tables)}
        for name in names:
            if name not in wanted or names.count(name) > 1:
                what = "is there twice" if name in wanted else "is not in the manifest"
                raise self._invalid(f"the member {name!r} {what}")
        if missing := wanted.difference(names):
            raise self._invalid(f"the member {min(missing)!r} is missing")

    def _check_expanded(self, limit: int) -> None:
        for table in self.manifest.tables:
            size = self._zip.getinfo(table.member).file_size
            if size != table.bytes:
                raise self._invalid(
                    f"{table.member} has {size} bytes, the manifest says {table.bytes}"
                )
        total = sum(each.bytes for each in self.manifest.tables)
        if total > limit:
            raise self._invalid(
                f"its tables expand to {total} bytes, more than {limit}; if it is yours and right,"
                f" raise the limit: --max-bytes {total}"
            )

    def _invalid(self, words: str) -> ArchiveInvalid:
        return ArchiveInvalid(f"{self._path}: {words}")


_UNREADABLE: Final = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    RuntimeError,  # encrypted
    NotImplementedError,  # another compression
)


def _manifest_of(document: Any) -> BackupManifest:
    """Raises ValueError, KeyError, TypeError or AttributeError for another shape."""
    if document.get("format") != FORMAT:
        raise ValueError(f"format is {document.get('format')!r}, expected {FORMAT!r}")
    if document.get("formatVersion") != FORMAT_VERSION:
        raise ValueError(
            f"formatVersion is {document.get('formatVersion')!r}; this release reads"
            f" {FORMAT_VERSION}: use the release that wrote it, or a newer one"
        )
    return BackupManifest(
        created_at=str(document["createdAt"]),
        partita=str(document["partita"]),
        store=str(document["store"]),
        installation=str(document["installation"]),
        migrations={
            str(app): tuple(str(name) for name in names)
            for app, names in document["migrations"].items()
        },
        tables=tuple(
            TableSummary(
                str(each["model"]), int(each["rows"]), int(each["bytes"]), str(each["sha256"])
            )
            for each in document["tables"]
        ),
        keys=tuple(str(each) for each in document["keys"]),
        not_included=tuple(str(each) for each in document["notIncluded"]),
    )
