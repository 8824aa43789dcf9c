"""MongoDB: the sink of documents (reference: sync-stack 5, mongo)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from pymongo import ReplaceOne, UpdateOne, errors

from sync_stack.core.bundle.datasources import Datasource
from sync_stack.core.formats import build_tree
from sync_stack.core.sink import (
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
from sync_stack.sinks.limits import READ_S, Deadline, check_name, check_path
from sync_stack.sinks.marks import mark_fields, mark_from
from sync_stack.sinks.mongo import MongoOptions
from sync_stack.sinks.mongo.client import address, collection, connect, translate_errors
from sync_stack.sinks.open_sinks import Resolve, SharedClient

_REPLACED: Final = re.compile(r'[/\\.$" \0]')
_PAGE: Final = 1000
_MAX_NAME: Final = 120
_MAX_COUNTED: Final = 10_000
_DUPLICATE: Final = 11000
MAX_BYTES: Final = 16 * 2**20 - 64 * 2**10  # of a document, with room for its metadata
METADATA: Final = "_partita"
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")  # what BSON surely holds
Document = dict[str, Any]
UNMARKED: Final = "unmarked"  # the version of a record that bears no marker


class MongoSink(BaseSink[MongoOptions]):
    """`record` is the document's `_id`."""

    def __init__(self, datasource: Datasource, options: MongoOptions, resolve: Resolve) -> None:
        super().__init__(datasource, options)
        self._client = SharedClient[Any](partial(connect, options, self._timeouts, resolve))
        self._indexed: set[str] = set()
        self.capabilities = replace(
            self.capabilities,
            marks_records=True,
            adopts_unmarked=self._by_key,
            replans=0 if self._by_key else 1,
            max_bytes=MAX_BYTES,
            batch=_PAGE,
        )

    def _collection(self, destination: Destination) -> Any:
        return collection(self._client(), self._options, destination.name)

    def destination(self, place: TargetPlace) -> Destination:
        options = self._options
        with_env = place.overrides.get("env_as_collection", options.env_as_collection)
        default = f"{options.collection}_{place.env}" if with_env else options.collection
        name = _REPLACED.sub("_", place.rendered or default)
        check_name(name, limit=_MAX_NAME)
        if name.startswith(("system_", "partita_")) or place.rendered.startswith("system."):
            raise SinkError("destination_invalid", f"{name!r} is a reserved collection")
        return Destination(
            kind="mongo", name=name, address=f"{address(options)}/{options.database}/{name}"
        )

    def record(self, place: TargetPlace, destination: Destination, key: str, file: str) -> str:
        if key.startswith("$"):
            raise SinkError("key_invalid", f"{key[:80]!r} begins with $")
        unit = f"partita/{place.tenant}/{place.env}"
        if self._is_document:
            return unit
        if self._by_file:
            return f"{unit}/file/{check_path(file, 'key_invalid')}"
        return f"{unit}/key/{key}"

    def read(self, destination: Destination, owner: Owner, records: Collection[str]) -> Live:
        deadline = Deadline(READ_S)
        documents = self._collection(destination)
        names, found = sorted(records), dict[str, LiveRecord]()
        with translate_errors():
            for start in range(0, len(names), _PAGE):
                deadline.check()
                page = {"_id": {"$in": names[start : start + _PAGE]}}
                found |= dict(map(record_of, documents.find(page)))
            for document in documents.find(_owner_filter(owner)):
                deadline.check()
                found.update([record_of(document)])
            others = documents.count_documents({METADATA: {"$exists": False}}, limit=_MAX_COUNTED)
        unmarked = sum(record.mark is None for record in found.values())
        return Live(records=found, foreign_count=max(0, others - unmarked))

    def write(self, destination: Destination, puts: Sequence[Put], mark: TargetMarker) -> None:
        documents = self._collection(destination)
        operations = [self._operation(put, mark) for put in puts]
        self._index(documents, destination.name)
        with translate_errors():
            try:
                documents.bulk_write(operations, ordered=False)
            except errors.BulkWriteError as error:
                raise _refusal(documents, error, mark.generation) from None

    def _operation(self, put: Put, mark: TargetMarker) -> UpdateOne | ReplaceOne[Document]:
        wanted = admits(put, mark.generation, whole=not self._by_key)
        marked = {METADATA: metadata(mark, file=put.file)} if put.marked else {}
        if not self._by_key:
            body: Document = {"data": self._data(put), **marked}
            if self._by_file:
                body["file"] = put.record.partition("/file/")[2]
            return ReplaceOne(wanted, body, upsert=True)
        ((key, value),) = put.values.items()
        update: Document = {"$set": {"key": key, "value": value, **marked}}
        if not put.marked:
            update["$unset"] = {METADATA: ""}
        return UpdateOne(wanted, update, upsert=True)

    def _data(self, put: Put) -> Document:
        size = sum(len(key.encode()) + len(text.encode()) + 16 for key, text in put.values.items())
        if size > MAX_BYTES:
            raise SinkError(
                "destination_too_large", f"{put.record!r} is larger than {MAX_BYTES} bytes"
            )
        made: Document = dict(sorted(put.values.items()))
        if self._style.nested:
            made = dict(build_tree(put.values, nested=True).plain())
        return {key: native(value) for key, value in made.items()} if self._style.native else made

    def delete(
        self, destination: Destination, deletes: Sequence[Delete], owner: Owner, generation: int
    ) -> None:
        names = [gone.record for gone in deletes]
        wanted = {
            "_id": {"$in": names},
            **_owner_filter(owner),
            f"{METADATA}.generation": {"$lte": generation},
        }
        with translate_errors():
            self._collection(destination).delete_many(wanted)

    def fence(self, destination: Destination, owner: Owner, generation: int) -> None:
        older = {**_owner_filter(owner), f"{METADATA}.generation": {"$lt": generation}}
        with translate_errors():
            self._collection(destination).update_many(
                older, {"$set": {f"{METADATA}.generation": generation}}
            )

    def close(self) -> None:
        self._client.close()

    def _index(self, documents: Any, name: str) -> None:
        """Create the index of a collection, once for each that is in use."""
        if name in self._indexed:
            return
        with translate_errors():
            documents.create_index([(f"{METADATA}.env", 1), ("key", 1)])
        self._indexed.add(name)


def _owner_filter(owner: Owner) -> Document:
    return {
        f"{METADATA}.rule": {"$in": sorted({owner.rule, *owner.former_rules})},
        f"{METADATA}.repo": owner.repo,
        f"{METADATA}.env": owner.env,
    }


def _refusal(documents: Any, error: errors.BulkWriteError, generation: int) -> SinkError:
    """A duplicate key: the filter kept the upsert from a document that is there."""
    failures = (error.details or {}).get("writeErrors", [])
    if not failures or any(failure.get("code") != _DUPLICATE for failure in failures):
        codes = sorted({str(failure.get("code")) for failure in failures})
        return SinkError("sink_unavailable", f"MongoDB refused writes: {', '.join(codes)}")
    wanted = [failure["op"]["q"]["_id"] for failure in failures if "op" in failure]
    found = list(documents.find({"_id": {"$in": wanted}}, {METADATA: 1}))
    if any(METADATA not in document for document in found):
        return SinkConflict("a document without a Partita marker appeared after the read")
    return SinkError(
        "stale_generation", f"a newer writer (above generation {generation}) wrote here"
    )


def flat(value: Any, path: str = "") -> dict[str, str]:
    """The canonical form of whatever a document holds: dots between names, values as text."""
    if isinstance(value, Mapping):
        children = [(str(name), child) for name, child in value.items()]
    elif isinstance(value, list):
        children = [(str(index), child) for index, child in enumerate(value)]
    else:
        return {path: _text(value)}
    made: dict[str, str] = {}
    for name, child in children:
        made |= flat(child, f"{path}.{name}" if path else name)
    return made


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def native(value: Any) -> Any:
    """Texts as numbers and booleans, only where `flat` gives the same spelling back."""
    if isinstance(value, Mapping):
        return {name: native(child) for name, child in value.items()}
    if isinstance(value, list):
        return [native(child) for child in value]
    for made in _candidates(str(value)):
        if _text(made) == value:
            return made
    return value


def _candidates(text: str) -> list[Any]:
    if text in ("true", "false"):
        return [text == "true"]
    if not _NUMBER.fullmatch(text):
        return []
    return [float(text)] if "." in text else [int(text)]


def record_of(document: Mapping[str, Any]) -> tuple[str, LiveRecord]:
    mark = mark_from(document.get(METADATA))
    if "data" in document:
        values = flat(document["data"]) if document["data"] else {}
    else:
        values = {str(document.get("key", "")): _text(document.get("value"))}
    version = str(mark.generation) if mark else UNMARKED
    return str(document["_id"]), LiveRecord(values=values, mark=mark, version=version)


def metadata(mark: TargetMarker, *, file: str) -> Document:
    return mark_fields(mark, file=file)


def admits(put: Put, generation: int, *, whole: bool) -> Document:
    """The filter of an upsert: no younger document, and no whole one of others that was not read.

    An upsert that this filter keeps from an existing document fails with a duplicate key.
    """
    ours: Document = {f"{METADATA}.generation": {"$lte": generation}}
    if whole and put.version != UNMARKED:
        return {"_id": put.record, **ours}
    return {"_id": put.record, "$or": [ours, {METADATA: {"$exists": False}}]}
