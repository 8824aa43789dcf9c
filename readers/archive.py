"""Packages as tar+gzip: written deterministically, read as hostile input.

    pack(files) -> bytes                 # equal files give equal bytes
    unpack(data) -> {path: content}      # refuses with a code and the name of the entry

Nothing is ever written to disk: an archive becomes a mapping of paths to contents, or is refused.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from readers import Unreadable

_BLOCK: Final = 512
_CHUNK: Final = 64 * 1024
_MAX_EXTENDED_BYTES: Final = 16 * 1024  # a pax header or a long name
_MAX_PATH_BYTES: Final = 1024
_MAX_PARTS: Final = 32  # of a path: each folder of each path is kept while an archive is read
_MAX_NAME_BYTES: Final = 255  # of a part: what file systems take
_GZIP: Final = b"\x1f\x8b"
_SHOWN: Final = 200  # characters of an entry's name in an error
_ZEROS: Final = bytes(_BLOCK)
_OVERHEAD: Final = 4 * 2**20  # headers and padding of a tar stream, beyond the contents of files


class ArchiveRefused(Unreadable):
    """An archive that breaks a rule; `code` is stable, `entry` is the name at fault or ""."""

    def __init__(self, code: str, reason: str, *, entry: str = "") -> None:
        shown = entry[:_SHOWN] + ("…" if len(entry) > _SHOWN else "")
        super().__init__(f"{shown!r}: {reason}" if entry else reason)
        self.code = code
        self.entry = shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLimits:
    compressed: int = 32 * 2**20
    extracted: int = 64 * 2**20  # contents of files
    files: int = 512
    entries: int = 2048  # files, folders and extended headers
    file_bytes: int = 2 * 2**20
    contract_bytes: int = 16 * 2**20  # of a file in api/

    def of_file(self, name: str) -> int:
        """Return how large an entry may be; api/ may stand in the one common top folder."""
        folders = [part for part in name.split("/")[:-1] if part not in ("", ".")]
        return self.contract_bytes if "api" in folders[:2] else self.file_bytes


LIMITS: Final = ArchiveLimits()


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return an archive, sorted, without times and owners; scripts are executable for everyone."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(files):
            entry = tarfile.TarInfo(path)
            entry.size = len(files[path])
            entry.mode = 0o755 if files[path].startswith(b"#!") else 0o644
            archive.addfile(entry, io.BytesIO(files[path]))
    return gzip.compress(buffer.getvalue(), mtime=0)


def unpack(data: bytes, *, limits: ArchiveLimits = LIMITS) -> dict[str, bytes]:
    """Return the files of an archive by path, without its one common top folder and hidden files.

    Raise ArchiveRefused.
    """
    if len(data) > limits.compressed:
        raise ArchiveRefused("too_large", f"is larger than {_mib(limits.compressed)} compressed")
    files = _Contents(limits)
    for entry in _entries(_Inflated(data, limits.extracted + _OVERHEAD), limits):
        files.add(entry)
    return files.package_files()


def content_digest(files: Mapping[str, bytes]) -> str:
    """Return `sha256:` of the sorted `path NUL size NUL sha256(file) LF`.

    (reference: control-plane 8)
    """
    whole = hashlib.sha256()
    for path in sorted(files):
        content = files[path]
        own = hashlib.sha256(content).hexdigest()
        whole.update(f"{path}\0{len(content)}\0{own}\n".encode())
    return f"sha256:{whole.hexdigest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    name: str
    is_folder: bool
    content: bytes


class _Contents:
    """What an archive holds, checked entry by entry."""

    def __init__(self, limits: ArchiveLimits) -> None:
        self._limits = limits
        self._folders: set[str] = set()
        self._files: dict[str, bytes] = {}
        self._size = 0

    def add(self, entry: _Entry) -> None:
        path = _normal_path(entry)
        if not path:
            return
        self._refuse_clash(entry, path)
        self._folders.update(_parents(path))
        if entry.is_folder:
            self._folders.add(path)
            return
        if len(self._files) == self._limits.files:
            raise ArchiveRefused("too_many_files", f"has more than {self._limits.files} files")
        self._size += len(entry.content)
        if self._size > self._limits.extracted:
            raise _too_large(self._limits.extracted)
        _refuse_binary(entry)
        self._files[path] = entry.content

    def _refuse_clash(self, entry: _Entry, path: str) -> None:
        clash = path in self._files or (path in self._folders and not entry.is_folder)
        if clash or any(parent in self._files for parent in _parents(path)):
            raise ArchiveRefused("duplicate", "occurs twice", entry=entry.name)

    def package_files(self) -> dict[str, bytes]:
        files = self._files
        tops = {path.partition("/")[0] for path in files}
        if len(tops) == 1 and all("/" in path for path in files):
            files = {path.partition("/")[2]: content for path, content in files.items()}
        return {path: files[path] for path in sorted(files) if not _is_hidden(path)}


def _parents(path: str) -> Iterator[str]:
    parent = path.rpartition("/")[0]
    while parent:
        yield parent
        parent = parent.rpartition("/")[0]


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))


def long_path_rule(path: str) -> str:
    """Return why a path is too long to be packed, unpacked and written as files, or ""."""
    parts = path.split("/")
    if len(parts) > _MAX_PARTS:
        return f"is in too many folders: a path has at most {_MAX_PARTS} parts"
    if any(len(part.encode(errors="surrogatepass")) > _MAX_NAME_BYTES for part in parts):
        return f"has a name of more than {_MAX_NAME_BYTES} bytes"
    if len(path.encode(errors="surrogatepass")) > _MAX_PATH_BYTES:
        return f"is longer than {_MAX_PATH_BYTES} bytes"
    return ""


def _normal_path(entry: _Entry) -> str:
    """Return the path without a leading `./`; "" is the archive's own folder."""
    path = entry.name.removesuffix("/") if entry.is_folder else entry.name
    if entry.is_folder and path == ".":
        return ""
    path = path.removeprefix("./")
    if path.startswith("/"):
        raise ArchiveRefused("path_absolute", "is an absolute path", entry=entry.name)
    if reason := long_path_rule(path):
        raise ArchiveRefused("path_invalid", reason, entry=entry.name)
    parts = path.split("/")
    if ".." in parts:
        raise ArchiveRefused("path_traversal", "leads out of the package", entry=entry.name)
    is_plain = path.isprintable() and "\\" not in path and not ("." in parts or "" in parts)
    if not is_plain:
        raise ArchiveRefused("path_invalid", "is not a normalized path", entry=entry.name)
    if path[1:2] == ":":
        raise ArchiveRefused("path_absolute", "is an absolute path", entry=entry.name)
    return path


def _refuse_binary(entry: _Entry) -> None:
    if b"\0" in entry.content:
        raise ArchiveRefused("not_text", "contains a NUL byte", entry=entry.name)
    try:
        entry.content.decode()
    except UnicodeDecodeError as error:
        reason = f"is not UTF-8 at byte {error.start}"
        raise ArchiveRefused("not_text", reason, entry=entry.name) from None


class _Inflated:
    """The tar stream, inflated as far as it is read and never beyond the limit."""

    def __init__(self, data: bytes, limit: int) -> None:
        self._data = memoryview(data)
        self._at = 0
        self._inflate = zlib.decompressobj(wbits=31)  # gzip, with its checksum
        self._left = self._limit = limit
        self._buffer = bytearray()

    def take(self, count: int) -> bytes:
        """Return the next bytes, fewer only at the end of the stream."""
        while len(self._buffer) < count and (chunk := self._more()):
            self._buffer += chunk
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def _more(self) -> bytes:
        """Return some bytes, none at the end."""
        while not self._inflate.eof:
            source = self._inflate.unconsumed_tail
            if not source:
                source = bytes(self._data[self._at : self._at + _CHUNK])
                self._at += len(source)
            try:
                chunk = self._inflate.decompress(source, _CHUNK)
            except zlib.error:
                code = "corrupt" if bytes(self._data[:2]) == _GZIP else "not_gzip"
                raise ArchiveRefused(code, "is not a valid gzip stream") from None
            if not chunk and not source and not self._inflate.eof:
                raise ArchiveRefused("truncated", "ends within its gzip stream")
            if chunk:
                return self._count(chunk)
        if self._inflate.unused_data or self._at < len(self._data):
            raise ArchiveRefused("trailing_bytes", "has more data after its gzip stream")
        return b""

    def _count(self, chunk: bytes) -> bytes:
        self._left -= len(chunk)
        if self._left < 0:
            raise _too_large(self._limit)
        return chunk


def _entries(stream: _Inflated, limits: ArchiveLimits) -> Iterator[_Entry]:
    """Yield files and folders; refuse all other kinds, and an archive without an end."""
    name, count = "", 0
    while (block := _header(stream)) != _ZEROS:
        count += 1
        if count > limits.entries:
            raise ArchiveRefused("too_many_entries", f"has more than {limits.entries} entries")
        entry = _parse(block)
        if entry.type in _EXTENDED:
            name = _long_name(stream, entry, name)
            continue
        entry.name, name = name or entry.name, ""
        yield _entry(stream, entry, limits)
    if name:
        raise ArchiveRefused("pax_refused", "has an extended header without an entry")
    while rest := stream.take(_CHUNK):
        if rest.count(0) != len(rest):
            raise ArchiveRefused("trailing_bytes", "has more data after its last entry")


def _header(stream: _Inflated) -> bytes:
    block = stream.take(_BLOCK)
    if len(block) < _BLOCK:
        raise ArchiveRefused("truncated", "ends without the end of an archive")
    return block


def _parse(block: bytes) -> tarfile.TarInfo:
    try:
        entry = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError, OverflowError):
        raise ArchiveRefused("corrupt", "has an invalid tar header") from None
    if entry.size < 0:
        raise ArchiveRefused("corrupt", "has a negative size", entry=entry.name)
    return entry


_EXTENDED: Final = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME)
_REFUSED: Final = {
    tarfile.LNKTYPE: ("link", "is a hard link"),
    tarfile.SYMTYPE: ("link", "is a symbolic link"),
    tarfile.GNUTYPE_LONGLINK: ("link", "is a link"),
    tarfile.CHRTYPE: ("device", "is a device"),
    tarfile.BLKTYPE: ("device", "is a device"),
    tarfile.FIFOTYPE: ("device", "is a named pipe"),
    tarfile.GNUTYPE_SPARSE: ("sparse", "is a sparse file"),
}
_REGULAR: Final = (tarfile.REGTYPE, tarfile.AREGTYPE)


def _entry(stream: _Inflated, entry: tarfile.TarInfo, limits: ArchiveLimits) -> _Entry:
    if not entry.name:
        raise ArchiveRefused("path_invalid", "has an entry without a name")
    if refusal := _REFUSED.get(entry.type):
        raise ArchiveRefused(refusal[0], refusal[1], entry=entry.name)
    is_folder = entry.type == tarfile.DIRTYPE
    if not is_folder and entry.type not in _REGULAR:
        raise ArchiveRefused("kind", "is neither a file nor a folder", entry=entry.name)
    if is_folder and entry.size:
        raise ArchiveRefused("corrupt", "is a folder with content", entry=entry.name)
    if entry.size > (limit := limits.of_file(entry.name)):
        reason = f"is larger than {_mib(limit)}"
        raise ArchiveRefused("file_too_large", reason, entry=entry.name)
    content = _content(stream, entry)
    return _Entry(name=entry.name, is_folder=is_folder, content=content)


def _content(stream: _Inflated, entry: tarfile.TarInfo) -> bytes:
    padded = -(-entry.size // _BLOCK) * _BLOCK
    content = stream.take(padded)
    if len(content) < padded:
        raise ArchiveRefused("truncated", "ends within a file", entry=entry.name)
    return content[: entry.size]


def _long_name(stream: _Inflated, entry: tarfile.TarInfo, name: str) -> str:
    """Return the name that an extended header gives to the next entry."""
    if entry.size > _MAX_EXTENDED_BYTES:
        raise ArchiveRefused("pax_refused", "has an extended header that is too large")
    content = _content(stream, entry)
    if entry.type == tarfile.GNUTYPE_LONGNAME:
        found = content.rstrip(b"\0").decode("utf-8", "surrogateescape")
    else:
        found = _pax_path(content, is_global=entry.type == tarfile.XGLTYPE)
    if found and name:
        raise ArchiveRefused("pax_refused", "gives two names to one entry", entry=found)
    return found or name


_PAX_IGNORED: Final = frozenset(
    ["mtime", "atime", "ctime", "uid", "gid", "uname", "gname", "comment", "charset"]
)
_PAX_IGNORED_PREFIXES: Final = ("SCHILY.xattr.", "LIBARCHIVE.")


def _pax_path(content: bytes, *, is_global: bool) -> str:
    """Return the path of a pax header, or "". Sizes, links and sparse maps may not be changed."""
    path = ""
    for key, value in _pax_records(content):
        if key == "path" and not is_global and value and "\0" not in value:
            path = value
        elif key.startswith("GNU.sparse."):
            raise ArchiveRefused("sparse", "is a sparse file", entry=path)
        elif key not in _PAX_IGNORED and not key.startswith(_PAX_IGNORED_PREFIXES):
            raise ArchiveRefused("pax_refused", f"has the pax record {key[:_SHOWN]!r}")
    return path


def _pax_records(content: bytes) -> Iterator[tuple[str, str]]:
    """Yield the records `LENGTH KEY=VALUE LF`."""
    rest = content
    while rest:
        digits, space, _ = rest[:10].partition(b" ")
        length = int(digits) if space and digits.isdigit() else 0
        record = rest[len(digits) + 1 : length]
        key, equals, value = record[:-1].partition(b"=")
        if not equals or not key or length > len(rest) or record[-1:] != b"\n":
            raise ArchiveRefused("pax_refused", "has an invalid pax header")
        yield key.decode(errors="replace"), value.decode("utf-8", "surrogateescape")
        rest = rest[length:]


def _too_large(limit: int) -> ArchiveRefused:
    return ArchiveRefused("extracted_too_large", f"is larger than {_mib(limit)} extracted")


def _mib(size: int) -> str:
    return f"{size / 2**20:g} MiB"
