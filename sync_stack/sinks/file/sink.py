"""Files in a directory that workers and watcher share (reference: sync-stack 5, file).

Whose a file is, and the generation, stand in `<root>/.partita/<destination id>.json`. Both are
read and written under a lock; that record is written before the files it names, so that after a
crash a file is never taken for somebody else's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from sync_stack.core.bundle.datasources import Datasource, KeyCase
from sync_stack.core.formats import formats
from sync_stack.core.sink import (
    MISTYPED,
    Delete,
    Destination,
    Live,
    LiveRecord,
    Owner,
    Put,
    SinkConflict,
    SinkError,
    TargetMarker,
    TargetPlace,
)
from sync_stack.sinks.base import BaseSink
from sync_stack.sinks.documents import writable_format
from sync_stack.sinks.file import FILE, FileOptions
from sync_stack.sinks.file.store import MAX_BYTES, TEMPORARY, FileStore, Mistyped
from sync_stack.sinks.limits import Deadline, check_name, check_path
from sync_stack.sinks.marks import generation_of, mark_fields, mark_from, refuse_stale
from sync_stack.sinks.open_sinks import Resolve

STATE_FOLDER: Final = ".partita"
_MAX_NAME: Final = 255 - len(TEMPORARY)


@dataclass(slots=True, kw_only=True)
class _Ownership:
    """The ownership record of a destination: its generation, and the markers of its files."""

    generation: int
    marks: dict[str, object]


class FileSink(BaseSink[FileOptions]):
    """DOCUMENT: one file; KEY_VALUE: a file a key; FILE: a file for each source file."""

    def __init__(self, datasource: Datasource, options: FileOptions, _resolve: Resolve) -> None:
        super().__init__(datasource, options)
        self._fixed_format = options.format if self._is_document else ""
        self._store = FileStore(Path(options.root), file_mode=options.file_mode)
        self.capabilities = replace(
            self.capabilities,
            marks_records=True,
            adopts_unmarked=False,
            atomic=self._is_document,
            foreign_listing=self._by_key,
            replans=1,
            max_bytes=MAX_BYTES,
            batch=100,
            key_formats=FILE.key_formats,
            key_case=options.key_case,
        )

    def destination(self, place: TargetPlace) -> Destination:
        name = check_path(
            check_name(place.rendered or self._default_name(place)), "destination_invalid"
        )
        if name.split("/")[0] == STATE_FOLDER:
            raise SinkError("destination_invalid", f"{STATE_FOLDER} is Partita's own folder")
        root = str(Path(self._options.root).absolute())
        return Destination(
            kind="file", name=name, address=f"file://{root.rstrip('/')}/{name}", separator="/"
        )

    def _default_name(self, place: TargetPlace) -> str:
        options = self._options
        in_folder = place.overrides.get("env_as_dir", options.env_as_dir)
        in_name = place.overrides.get("env_as_filename", options.env_as_filename)
        suffix = ""
        if self._is_document:
            suffix = f".{formats[options.format or 'json'].extensions[0]}"
        if in_folder:
            return f"{place.env}/config{suffix}"
        return f"config-{place.env}{suffix}" if in_name else f"config{suffix}"

    def record(self, place: TargetPlace, destination: Destination, key: str, file: str) -> str:
        """Return the path of the file below the root that holds the key."""
        case = self._options.key_case
        cased = key.upper() if case is KeyCase.UPPER else key.lower()
        if case is not KeyCase.KEEP and cased != key:
            raise SinkError("key_invalid", f"{key[:80]!r} is not in {case.value} case")
        if self._is_document:
            return destination.name
        if self._by_key:
            return f"{destination.name}/{_file_name(key)}"
        path = check_path(file, "key_invalid")
        suffix = "" if writable_format(path) else ".json"
        return f"{destination.name}/{path}{suffix}"

    def read(self, destination: Destination, owner: Owner, records: Collection[str]) -> Live:
        deadline = Deadline(self._timeouts.operation_s)
        state = self._state(destination)
        marks = {name: mark_from(fields) for name, fields in state.marks.items()}
        wanted = set(records) | {name for name, mark in marks.items() if owner.owns(mark)}
        found: dict[str, LiveRecord] = {}
        mistyped: set[str] = set()
        for name in sorted(wanted):
            deadline.check()
            try:
                content = self._store.read(name)
            except Mistyped:
                mistyped.add(name)
                continue
            if content is not None:
                key = name.removeprefix(f"{destination.name}/")
                found[name] = LiveRecord(
                    values=self._values(name, key, content),
                    mark=marks.get(name),
                    version=_version(content),
                )
        return Live(
            records=found,
            foreign=self._foreign(destination, found),
            mistyped=frozenset(mistyped),
        )

    def _foreign(self, destination: Destination, found: Mapping[str, LiveRecord]) -> frozenset[str]:
        if not self._by_key:
            return frozenset()
        try:
            names = self._store.names(destination.name)
        except Mistyped:
            return frozenset()
        return frozenset(name for name in names if f"{destination.name}/{name}" not in found)

    def write(self, destination: Destination, puts: Sequence[Put], mark: TargetMarker) -> None:
        contents = self._bodies(puts, max_bytes=MAX_BYTES)
        deadline = Deadline(self._timeouts.operation_s)
        with self._changing(destination, mark.generation, deadline) as state:
            for put in puts:
                self._refuse_changed(put.record, put.version)
            for put in puts:
                state.marks.pop(put.record, None)
                if put.marked:
                    state.marks[put.record] = mark_fields(mark, file=put.file)
            self._save(destination, state)
            for put in puts:
                deadline.check()
                self._store.write(
                    put.record, contents[put.record], mistyped=put.version == MISTYPED
                )

    def delete(
        self, destination: Destination, deletes: Sequence[Delete], owner: Owner, generation: int
    ) -> None:
        deadline = Deadline(self._timeouts.operation_s)
        with self._changing(destination, generation, deadline) as state:
            ours = [gone for gone in deletes if owner.owns(mark_from(state.marks.get(gone.record)))]
            for gone in ours:
                deadline.check()
                self._refuse_changed(gone.record, gone.version, absent_is_fine=True)
                self._store.delete(gone.record)
            for gone in ours:
                del state.marks[gone.record]
            self._save(destination, state)

    def fence(self, destination: Destination, owner: Owner, generation: int) -> None:
        deadline = Deadline(self._timeouts.operation_s)
        with self._store.lock_file(_path(destination, "lock"), deadline):
            state = self._state(destination)
            if state.generation < generation:
                state.generation = generation
                self._save(destination, state)

    def close(self) -> None:
        """Do nothing: no file stays open between operations."""

    @contextmanager
    def _changing(
        self, destination: Destination, generation: int, deadline: Deadline
    ) -> Iterator[_Ownership]:
        """The state, under the lock, after the generation has been checked and raised."""
        with self._store.lock_file(_path(destination, "lock"), deadline):
            state = self._state(destination)
            refuse_stale(state.generation, generation)
            state.generation = generation
            yield state

    def _refuse_changed(self, name: str, version: str, *, absent_is_fine: bool = False) -> None:
        try:
            content = self._store.read(name)
            found = _version(content) if content is not None else ""
        except Mistyped:
            found = MISTYPED
        if version == MISTYPED and not found:
            return
        if found != version and not (absent_is_fine and not found):
            raise SinkConflict(f"{name} changed after it was read")

    def _state(self, destination: Destination) -> _Ownership:
        raw = self._store.read(_path(destination, "json"))
        try:
            stored = json.loads(raw) if raw else {}
        except ValueError:
            detail = f"the ownership record of {destination.name} is not valid JSON"
            raise SinkError("sink_unavailable", detail) from None
        marks = stored.get("records") if isinstance(stored, dict) else None
        return _Ownership(
            generation=generation_of(stored.get("generation", 0)) if marks is not None else 0,
            marks=dict(marks) if isinstance(marks, dict) else {},
        )

    def _save(self, destination: Destination, state: _Ownership) -> None:
        stored = {
            "destination": destination.name,
            "generation": state.generation,
            "records": state.marks,
        }
        text = json.dumps(stored, sort_keys=True, ensure_ascii=False)
        self._store.write(_path(destination, "json"), text.encode(), mode=0o640)


def _path(destination: Destination, suffix: str) -> str:
    return f"{STATE_FOLDER}/{destination.id}.{suffix}"


def _version(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _file_name(key: str) -> str:
    """One name: a key with `/` would be a folder."""
    name = check_path(key, "key_invalid")
    if "/" in name or name.startswith(TEMPORARY) or len(name.encode()) > _MAX_NAME:
        raise SinkError("key_invalid", f"{key[:80]!r} is not a valid file name")
    return name
