"""Objects in a bucket: one document, an object a key, or one a source file.

There is no fence: an object carries its generation, and the server compares entity tags.

(reference: sync-stack 5, s3)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final, TypeVar

from sync_stack.core.bundle.datasources import Datasource
from sync_stack.core.formats import formats, writable_formats
from sync_stack.core.sink import (
    Delete,
    Destination,
    Live,
    LiveRecord,
    Owner,
    Put,
    SinkError,
    TargetMarker,
    TargetPlace,
)
from sync_stack.sinks.base import BaseSink
from sync_stack.sinks.documents import TEXT
from sync_stack.sinks.limits import READ_S, Deadline, check_name, check_path
from sync_stack.sinks.open_sinks import Resolve
from sync_stack.sinks.s3 import S3Options
from sync_stack.sinks.s3.objects import MAX_BYTES, Objects, metadata_of, refuse_younger

_MAX_KEY: Final = 1024
_MAX_LOOKS: Final = 1000  # objects of others whose marker is looked at
_AT_ONCE: Final = 5  # rounds of max_concurrency that fit an operation's time
Item = TypeVar("Item")
Made = TypeVar("Made")


class S3Sink(BaseSink[S3Options]):
    """`record` is the object's key."""

    def __init__(self, datasource: Datasource, options: S3Options, resolve: Resolve) -> None:
        super().__init__(datasource, options)
        self._fixed_format = "json" if self._by_file else ""
        self._objects = Objects(options, self._timeouts, resolve)
        self.capabilities = replace(
            self.capabilities,
            marks_records=True,
            adopts_unmarked=False,
            atomic=self._is_document,
            fencing=False,
            foreign_listing=not self._is_document,
            replans=1,
            max_bytes=MAX_BYTES,
            batch=options.max_concurrency * _AT_ONCE,
        )

    def destination(self, place: TargetPlace) -> Destination:
        options = self._options
        with_env = place.overrides.get("env_as_prefix", options.env_as_prefix)
        prefix = options.prefix.removesuffix("/")
        parts = [prefix, place.env if with_env else ""]
        name = place.rendered.removesuffix("/") or "/".join(filter(None, parts))
        if self._is_document and not _names_document(name):
            name = f"{name}/{options.file_pattern}" if name else options.file_pattern
        if name:
            check_path(check_name(name, limit=_MAX_KEY), "destination_invalid")
        server = options.endpoint.rstrip("/").lower() or f"aws:{options.region}"
        return Destination(
            kind="s3", name=name, address=f"{server}/{options.bucket}/{name}", separator="/"
        )

    def record(self, place: TargetPlace, destination: Destination, key: str, file: str) -> str:
        if self._is_document:
            return destination.name
        last = key if self._by_key else f"{file}.json"
        name = f"{_below(destination)}{check_path(last, 'key_invalid')}"
        if len(name.encode()) > _MAX_KEY:
            raise SinkError("key_invalid", f"{name[:80]!r} is longer than {_MAX_KEY} bytes")
        return name

    def read(self, destination: Destination, owner: Owner, records: Collection[str]) -> Live:
        deadline = Deadline(READ_S)
        wanted, foreign = set(records), frozenset[str]()
        if not self._is_document:
            listed = set(self._objects.names(_below(destination), deadline)) - wanted
            candidates = sorted(listed)[:_MAX_LOOKS]
            heads = zip(
                candidates, self._each(candidates, self._objects.head, deadline), strict=True
            )
            ours = {name for name, head in heads if head and owner.owns(head.mark)}
            wanted, foreign = wanted | ours, frozenset(listed - ours)
        else:
            wanted |= {destination.name}
        names = sorted(wanted)
        found = self._each(names, self._objects.get, deadline)
        live = {}
        for name, answer in zip(names, found, strict=True):
            if answer and (name in records or owner.owns(answer[0].mark)):
                head, body = answer
                key = name.removeprefix(_below(destination))
                values = self._values(name, key, body)
                live[name] = LiveRecord(values=values, mark=head.mark, version=head.version)
        return Live(records=live, foreign=foreign)

    def write(self, destination: Destination, puts: Sequence[Put], mark: TargetMarker) -> None:
        bodies = self._bodies(puts, max_bytes=MAX_BYTES)
        _ = self._objects.is_conditional  # asked before the first thread needs it

        def send(put: Put) -> None:
            body = bodies[put.record]
            kind = "" if self._style.one_key else formats[self._format(put.record)].content_type
            self._objects.put(
                put.record,
                body,
                metadata_of(mark, body, file=put.file) if put.marked else {},
                version=put.version,
                generation=mark.generation,
                content_type=kind or TEXT,
            )

        self._each(puts, send, Deadline(self._timeouts.operation_s))

    def delete(
        self, destination: Destination, deletes: Sequence[Delete], owner: Owner, generation: int
    ) -> None:
        def remove(gone: Delete) -> None:
            found = self._objects.head(gone.record)
            if found and owner.owns(found.mark):
                refuse_younger(found, generation)
                self._objects.delete(gone.record)

        self._each(deletes, remove, Deadline(self._timeouts.operation_s))

    def fence(self, destination: Destination, owner: Owner, generation: int) -> None:
        """There is nothing to raise: each object carries its own generation."""

    def close(self) -> None:
        self._objects.close()

    def _each(
        self, items: Iterable[Item], act: Callable[[Item], Made], deadline: Deadline
    ) -> list[Made]:
        """Several at once; after the first failure no further one begins, and it is raised."""

        def act_in_time(item: Item) -> Made:
            deadline.check()
            return act(item)

        pool = ThreadPoolExecutor(self._options.max_concurrency, thread_name_prefix="s3")
        try:
            return list(pool.map(act_in_time, items))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _names_document(name: str) -> bool:
    """Check for the suffix of a format; `.ini` has always named a folder here."""
    suffixes = {f".{formats[known].extensions[0]}" for known in writable_formats()}
    return name.endswith(tuple(suffixes - {".ini"}))


def _below(destination: Destination) -> str:
    return f"{destination.name}/" if destination.name else ""
