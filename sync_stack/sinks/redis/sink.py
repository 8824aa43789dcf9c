"""Redis: hashes, strings, one JSON text, or one a source file (reference: sync-stack 5, redis).

Metadata and the generation live in a hash beside the data; one Lua script compares and writes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from redis import exceptions

from sync_stack.core.bundle.datasources import Datasource
from sync_stack.core.sink import (
    MISTYPED,
    Changes,
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
from sync_stack.sinks.documents import bytes_of, text_of, values_of
from sync_stack.sinks.limits import READ_S, Deadline, check_name, check_path
from sync_stack.sinks.marks import mark_fields, mark_of_text, mark_text
from sync_stack.sinks.open_sinks import Resolve, SharedClient
from sync_stack.sinks.redis import HASH_TAG, REDIS, RedisMode, RedisOptions, RedisStructure
from sync_stack.sinks.redis.client import (
    RedisChanges,
    connect,
    host_and_port,
    is_wrong_type,
    translate_errors,
)
from sync_stack.sinks.redis.scripts import APPLY, FENCE

METADATA: Final = "__partita__"
_RESERVED: Final = "partita:"
_PAGE: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """One operation of the script; `key` is the Redis key, `name` the field or the record."""

    kind: str
    key: str
    name: str
    value: bytes = b""
    version: str = "-"
    owner: str = "-"
    ttl_ms: int = 0

    def arguments(self, number: int) -> list[bytes | str | int]:
        return [
            *(self.kind, number, bytes_of(self.name), self.value),
            *(self.version, bytes_of(self.owner), self.ttl_ms),
        ]


class RedisSink(BaseSink[RedisOptions]):
    """`record` is the key of a setting (HASH, STRING), the path of a file, or `json`."""

    def __init__(self, datasource: Datasource, options: RedisOptions, resolve: Resolve) -> None:
        super().__init__(datasource, options)
        self._connect = partial(connect, options, self._timeouts, resolve)
        self._client = SharedClient[Any](self._connect)
        strings = options.data_structure is RedisStructure.STRING
        self._strings = strings and self._by_key
        formats = REDIS.key_formats
        self.capabilities = replace(
            self.capabilities,
            marks_records=not self._by_key,
            adopts_unmarked=self._by_key,
            atomic=True,
            foreign_listing=self._by_key and not self._strings,
            expires=bool(options.ttl_s) and (self._strings or self._is_document),
            replans=0 if self._by_key else 1,
            batch=options.pipeline_batch_size,
            key_formats=formats[::-1] if self._strings else formats,
        )

    def destination(self, place: TargetPlace) -> Destination:
        options = self._options
        name = check_name(place.rendered or self._default_name(place))
        if name.startswith(_RESERVED) or name.endswith(f":{METADATA}"):
            raise SinkError("destination_invalid", f"{name!r} is reserved for Partita's own state")
        if options.mode is RedisMode.CLUSTER:
            tagged = HASH_TAG.search(name) is not None  # data and metadata lie in one slot
            if not tagged and (self._strings or re.search("[{}]", name)):
                raise SinkError("destination_invalid", f"{name!r} needs a hash tag in a cluster")
        hosts = ",".join(
            f"{host}:{port}" for host, port in sorted(map(host_and_port, options.hosts))
        )
        within = (
            f"{options.sentinel_master}/{options.db}" if options.sentinel_master else options.db
        )
        return Destination(
            kind="redis",
            name=name,
            address=f"redis://{hosts}/{within}/{name}",
            separator=options.key_separator if self._strings else "",
        )

    def changes(self) -> Changes | None:
        """Nodes of a cluster tell of their own keys only: no notifications there."""
        if self._options.mode is RedisMode.CLUSTER:
            return None
        found = RedisChanges(self._connect(), db=self._options.db)
        if found.is_told("g$" if self._strings or self._is_document else "gh"):
            return found
        found.close()
        return None

    def _default_name(self, place: TargetPlace) -> str:
        options, separator = self._options, self._options.key_separator
        with_env = place.overrides.get("env_as_key_prefix", options.env_as_key_prefix)
        parts = [options.key_prefix, place.env if with_env else ""]
        prefix = separator.join(filter(None, parts))
        prefix = prefix or f"{place.tenant}:{place.datasource}:{place.env}"
        hashed = self._by_key and not self._strings
        return f"{prefix}{separator}{options.hash_key}" if hashed else prefix

    def record(self, place: TargetPlace, destination: Destination, key: str, file: str) -> str:
        if key == METADATA or not key:
            raise SinkError("key_invalid", f"{key!r} is reserved for Partita's own state")
        if self._by_file:
            return check_path(file, "key_invalid")
        return "json" if self._is_document else key

    def read(self, destination: Destination, owner: Owner, records: Collection[str]) -> Live:
        deadline = Deadline(READ_S)
        with translate_errors():
            if self._strings:
                return self._strings_live(destination, records, deadline)
            try:
                if self._is_document:
                    raw = self._client().get(bytes_of(destination.name))
                    text = self._client().hget(self._metadata(destination), "record:json")
                    return Live(records={} if raw is None else {"json": _whole(raw, text)})
                fields = dict(self._fields(destination.name, deadline))
            except exceptions.ResponseError as error:
                if not is_wrong_type(error):
                    raise
                return Live(mistyped=frozenset(records), mistyped_whole=True)
            if not self._by_key:
                return self._files_live(destination, owner, records, fields)
        wanted = {name: fields[name] for name in records if name in fields}
        found = {name: LiveRecord(values={name: text_of(raw)}) for name, raw in wanted.items()}
        return Live(records=found, foreign=frozenset(fields.keys() - found.keys()))

    def _fields(self, key: str, deadline: Deadline) -> Iterator[tuple[str, bytes]]:
        cursor = 0
        while True:
            deadline.check()
            cursor, page = self._client().hscan(key, cursor, count=_PAGE)
            yield from ((text_of(name), raw) for name, raw in page.items())
            if not cursor:
                return

    def _strings_live(
        self, destination: Destination, records: Collection[str], deadline: Deadline
    ) -> Live:
        """MGET tells nothing of a key of another type, as if it were absent: TYPE does."""
        names, live, mistyped = sorted(records), dict[str, LiveRecord](), set[str]()
        for start in range(0, len(names), _PAGE):
            deadline.check()
            keys = {
                name: bytes_of(self._key(destination, name))
                for name in names[start : start + _PAGE]
            }
            found = dict(zip(keys, self._client().mget(list(keys.values())), strict=True))
            absent = [name for name, raw in found.items() if raw is None]
            live |= {
                name: LiveRecord(values={name: text_of(raw)})
                for name, raw in found.items()
                if raw is not None
            }
            types = self._types([keys[name] for name in absent])
            mistyped |= {name for name, kind in zip(absent, types, strict=True) if kind != b"none"}
        return Live(records=live, mistyped=frozenset(mistyped))

    def _types(self, keys: Sequence[bytes]) -> list[bytes]:
        """A string that has appeared since is `none` as well: the next read sees it."""
        if not keys:
            return []
        with self._client().pipeline(transaction=False) as pipeline:
            for key in keys:
                pipeline.type(key)
            return [b"none" if kind == b"string" else kind for kind in pipeline.execute()]

    def _files_live(
        self,
        destination: Destination,
        owner: Owner,
        records: Collection[str],
        fields: Mapping[str, bytes],
    ) -> Live:
        marks = self._client().hgetall(self._metadata(destination))
        owners = {name: marks.get(bytes_of(f"record:{name}")) for name in fields}
        ours = {name for name, text in owners.items() if owner.owns(mark_of_text(text))}
        wanted = (set(records) | ours) & fields.keys()
        found = {name: _whole(fields[name], owners[name]) for name in wanted}
        return Live(records=found, foreign=frozenset(fields.keys() - wanted))

    def write(self, destination: Destination, puts: Sequence[Put], mark: TargetMarker) -> None:
        changes = [self._put(destination, put, mark) for put in puts]
        fields = mark_fields(mark) | {"tags": json.dumps(dict(mark.tags), sort_keys=True)}
        described = json.dumps({name: str(text) for name, text in fields.items() if name != "file"})
        self._apply(destination, changes, mark.generation, described)

    def _put(self, destination: Destination, put: Put, mark: TargetMarker) -> _Change:
        owner = mark_text(mark, file=put.file) if put.marked else ""
        body = self._style.body(put, "json")
        if self._by_key:
            version = "!-" if put.version == MISTYPED else "-"
        else:
            version = "!" if put.version == MISTYPED else put.version
        return _Change(
            kind="set" if self._strings or self._is_document else "hset",
            key=self._key(destination, put.record),
            name=put.record,
            value=body if self._by_key else body.rstrip(b"\n"),
            version=version,
            owner="-" if self._by_key else owner,
            ttl_ms=int(self._options.ttl_s * 1000),
        )

    def delete(
        self, destination: Destination, deletes: Sequence[Delete], owner: Owner, generation: int
    ) -> None:
        changes = [
            _Change(
                kind="del" if self._strings or self._is_document else "hdel",
                key=self._key(destination, gone.record),
                name=gone.record,
                version="-" if self._by_key else gone.version,
                owner="-" if self._by_key else "",
            )
            for gone in self._ours(destination, deletes, owner)
        ]
        self._apply(destination, changes, generation, "{}")

    def _ours(
        self, destination: Destination, deletes: Sequence[Delete], owner: Owner
    ) -> list[Delete]:
        """Leave out the whole records that bear another's marker."""
        if self._by_key or not deletes:
            return list(deletes)
        names = [bytes_of(f"record:{gone.record}") for gone in deletes]
        with translate_errors():
            texts = self._client().hmget(self._metadata(destination), names)
        pairs = zip(deletes, texts, strict=True)
        return [gone for gone, text in pairs if owner.owns(mark_of_text(text))]

    def fence(self, destination: Destination, owner: Owner, generation: int) -> None:
        with translate_errors():
            self._client().eval(FENCE, 1, self._metadata(destination), generation)

    def close(self) -> None:
        self._client.close()

    def _apply(
        self, destination: Destination, changes: Sequence[_Change], generation: int, described: str
    ) -> None:
        deadline = Deadline(self._timeouts.operation_s)
        size = self._options.pipeline_batch_size
        for start in range(0, len(changes), size):
            deadline.check()
            batch = changes[start : start + size]
            keys = list(dict.fromkeys(change.key for change in batch))
            numbers = {key: number for number, key in enumerate(keys, start=2)}
            named: Iterable[Any] = (
                part for change in batch for part in change.arguments(numbers[change.key])
            )
            with translate_errors():
                outcome = self._client().eval(
                    APPLY,
                    1 + len(keys),
                    self._metadata(destination),
                    *map(bytes_of, keys),
                    *(generation, described, len(batch)),
                    *named,
                )
            _refuse(text_of(outcome))

    def _key(self, destination: Destination, record: str) -> str:
        if not self._strings:
            return destination.name
        return f"{destination.name}{self._options.key_separator}{record}"

    def _metadata(self, destination: Destination) -> bytes:
        name = destination.name
        if self._options.mode is RedisMode.CLUSTER and not HASH_TAG.search(name):
            name = f"{{{name}}}"
        return bytes_of(f"{name}:{METADATA}")


def _whole(raw: bytes, owner: bytes | None) -> LiveRecord:
    version = hashlib.sha1(raw, usedforsecurity=False).hexdigest()
    return LiveRecord(values=values_of(raw, "json"), mark=mark_of_text(owner), version=version)


def _refuse(outcome: str) -> None:
    fact, _, detail = outcome.partition(":")
    if fact == "stale":
        raise SinkError("stale_generation", f"a newer writer (generation {detail}) wrote here")
    if fact == "conflict":
        raise SinkConflict(f"{detail!r} changed after it was read")
