"""A sink in memory that keeps the port's promises, with a way to break down between operations."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Lock

from sync_stack.core.sink import (
    MISTYPED,
    Capabilities,
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


class Layout(StrEnum):
    HASH = "hash"  # a key a record, no marks on records
    KEY_VALUE = "key_value"  # a key a record, each with its mark
    DOCUMENT = "document"
    FILE = "file"


CAPABILITIES = {
    Layout.HASH: Capabilities(foreign_listing=True),
    Layout.KEY_VALUE: Capabilities(marks_records=True, foreign_listing=True, replans=1),
    Layout.DOCUMENT: Capabilities(
        whole_records=True, marks_records=True, adopts_unmarked=False, replans=1
    ),
    Layout.FILE: Capabilities(
        whole_records=True, marks_records=True, adopts_unmarked=False, replans=1
    ),
}


@dataclass
class Place:
    records: dict[str, LiveRecord] = field(default_factory=dict)
    generation: int = 0
    mistyped: set[str] = field(default_factory=set)


class FakeSink:
    """`break_after` operations on records it is away, until that is None again."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.capabilities = CAPABILITIES[layout]
        self.places: dict[str, Place] = {}
        self.break_after: int | None = None
        self.partial = False
        self._versions = itertools.count(1)
        self._lock = Lock()

    def destination(self, place: TargetPlace) -> Destination:
        name = place.rendered or f"{place.tenant}:{place.datasource}:{place.env}"
        if name.startswith("partita:"):
            raise SinkError("destination_invalid", f"{name!r} is reserved")
        return Destination(kind="fake", name=name, address=f"fake://memory/{name}")

    def record(self, place: TargetPlace, destination: Destination, key: str, file: str) -> str:
        if key.startswith("$"):
            raise SinkError("key_invalid", f"{key!r} begins with $")
        if self.layout is Layout.DOCUMENT:
            return "document"
        return file if self.layout is Layout.FILE else key

    def read(self, destination: Destination, owner: Owner, records: Collection[str]) -> Live:
        place = self._place(destination)
        if self.partial:
            raise SinkError("sink_timeout", "read half of it")
        wanted = set(records)
        found = {
            name: record
            for name, record in place.records.items()
            if name in wanted or owner.owns(record.mark)
        }
        return Live(
            records=found,
            foreign=frozenset(place.records.keys() - found.keys()),
            mistyped=frozenset(place.mistyped & wanted),
        )

    def write(self, destination: Destination, puts: Sequence[Put], mark: TargetMarker) -> None:
        place = self._admitted(destination, mark.generation)
        for put in puts:
            self._operate()
            self._check(place, put)
            place.mistyped.discard(put.record)
            marked = put.marked and self.capabilities.marks_records
            place.records[put.record] = LiveRecord(
                values=dict(put.values),
                mark=mark if marked else None,
                version=str(next(self._versions)),
            )

    def delete(
        self, destination: Destination, deletes: Sequence[Delete], owner: Owner, generation: int
    ) -> None:
        place = self._admitted(destination, generation)
        for delete in deletes:
            self._operate()
            found = place.records.get(delete.record)
            if found and (owner.owns(found.mark) or not self.capabilities.marks_records):
                del place.records[delete.record]

    def fence(self, destination: Destination, owner: Owner, generation: int) -> None:
        place = self._place(destination)
        place.generation = max(place.generation, generation)

    def close(self) -> None:
        self.places.clear()

    def put_by_hand(self, destination: Destination, record: str, values: dict[str, str]) -> None:
        """Somebody else writes: no mark."""
        place = self._place(destination)
        place.records[record] = LiveRecord(values=values, version=str(next(self._versions)))

    def put_other_type(self, destination: Destination, record: str) -> None:
        """Somebody else puts another type of thing in the place of a record."""
        place = self._place(destination)
        place.records.pop(record, None)
        place.mistyped.add(record)

    def dump(self, destination: Destination) -> str:
        """Every byte that it holds of a destination."""
        records = self._place(destination).records
        mistyped = sorted(self._place(destination).mistyped)
        found = {name: dict(record.values) for name, record in sorted(records.items())}
        return json.dumps([found, mistyped])

    def _place(self, destination: Destination) -> Place:
        with self._lock:
            return self.places.setdefault(destination.id, Place())

    def _admitted(self, destination: Destination, generation: int) -> Place:
        place = self._place(destination)
        if place.generation > generation:
            raise SinkError(
                "stale_generation", f"a newer writer (generation {place.generation}) wrote here"
            )
        place.generation = generation
        return place

    def _operate(self) -> None:
        if self.break_after is None:
            return
        if self.break_after == 0:
            raise SinkError("sink_unavailable", "the sink has gone away")
        self.break_after -= 1

    def _check(self, place: Place, put: Put) -> None:
        found = place.records.get(put.record)
        version = MISTYPED if put.record in place.mistyped else found.version if found else ""
        compared = self.capabilities.replans or version == MISTYPED
        if compared and version != put.version:
            raise SinkConflict("the record is another one than was read")
