"""The sinks that the contract suite runs against, each with a hand of somebody else in it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pymongo import MongoClient
from redis import Redis

from sync_stack.core.bundle.datasources import (
    Datasource,
    DatasourceOptions,
    OutputShape,
    UpdateStrategy,
    datasource_kinds,
)
from sync_stack.core.bundle.secrets import SecretRef
from sync_stack.core.sink import Sink
from sync_stack.sinks.configmap import ConfigMapOptions
from sync_stack.sinks.documents import Style, document, writable_format
from sync_stack.sinks.file import FileOptions
from sync_stack.sinks.mongo import MongoOptions
from sync_stack.sinks.open_sinks import open_sink
from sync_stack.sinks.redis import RedisOptions, RedisStructure
from sync_stack.sinks.s3 import ConditionalWrites, S3Options
from tests.support import kubernetes_api, parts, s3_server
from tests.support.fake_sink import FakeSink, Layout
from tests.support.plug_ins import plug_in_of_guide
from tests.support.syncing import PLACE, Unit

ByHand = Callable[[str, Mapping[str, str]], None]


@dataclass(kw_only=True)
class World:
    """A sink, and its store as somebody else sees it.

    `by_hand(record, values)` writes a record as a stranger would, without our marker;
    `other_type(record)` puts another type of thing in its place, where the store has any; `dump`
    is every byte of the unit's destination. `bad_keys` and `bad_destinations` cannot be taken.
    """

    sink: Sink
    by_hand: ByHand
    other_type: Callable[[str], None] | None = None
    dump: Callable[[], Any]
    bad_keys: tuple[str, ...] = ()
    bad_destinations: tuple[str, ...] = ()
    rendered: str = ""
    values: Mapping[str, str] = field(default_factory=dict)

    def unit(self, *, rule: str = PLACE.rule) -> Unit[Sink]:
        return Unit(self.sink, place=replace(PLACE, rendered=self.rendered, rule=rule))


Worlds = Callable[[Path], AbstractContextManager[World]]
WORLDS: dict[str, Worlds] = {}


def world(name: str) -> Callable[[Worlds], Worlds]:
    def add(made: Worlds) -> Worlds:
        assert name not in WORLDS
        WORLDS[name] = made
        return made

    return add


def resolve(reference: SecretRef) -> str:
    return reference.value


def datasource(kind: str, options: DatasourceOptions, **fields: Any) -> Datasource:
    return Datasource(name=kind, kind=kind, options=options, **fields)


def opened(kind: str, options: DatasourceOptions, **fields: Any) -> Sink:
    return open_sink(datasource(kind, options, **fields), resolve)


def _fake(layout: Layout) -> Worlds:
    @contextmanager
    def build(_folder: Path) -> Iterator[World]:
        sink = FakeSink(layout)
        destination = sink.destination(PLACE)

        def by_hand(record: str, values: Mapping[str, str]) -> None:
            sink.put_by_hand(destination, record, dict(values))

        yield World(
            sink=sink,
            by_hand=by_hand,
            other_type=lambda record: sink.put_other_type(destination, record),
            dump=lambda: sink.dump(destination),
            bad_keys=("$where",),
            bad_destinations=("partita:x",),
        )

    return build


for each in Layout:
    WORLDS[f"fake-{each.value}"] = _fake(each)


def _file(strategy: UpdateStrategy, *, other: str = "link", **options: Any) -> Worlds:
    @contextmanager
    def build(folder: Path) -> Iterator[World]:
        root = folder / "root"
        sink = opened("file", FileOptions(root=str(root), **options), update_strategy=strategy)

        def by_hand(record: str, values: Mapping[str, str]) -> None:
            path = root / record
            path.parent.mkdir(parents=True, exist_ok=True)
            if strategy is UpdateStrategy.KEY_VALUE:
                path.write_text(next(iter(values.values())), newline="")
            else:
                path.write_bytes(document(values, writable_format(record), Style()))

        def other_type(record: str) -> None:
            path = root / record
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            if other == "link":
                path.symlink_to(folder / "elsewhere")
            else:
                path.mkdir()

        def dump() -> dict[str, bytes]:
            files = [path for path in root.rglob("*") if path.is_file()]
            return {
                str(p.relative_to(root)): p.read_bytes() for p in files if ".partita" not in p.parts
            }

        yield World(
            sink=sink,
            by_hand=by_hand,
            other_type=other_type,
            dump=dump,
            bad_keys=("../escape", "a/b", "..", ".partita-x")
            if strategy is UpdateStrategy.KEY_VALUE
            else (),
            bad_destinations=("../out", "/etc/x", "a//b", ".partita/x", "a\nb", "a\\..\\b"),
        )

    return build


@world("sqlite-of-the-guide")
@contextmanager
def _of_the_guide(folder: Path) -> Iterator[World]:
    path = folder / "settings.db"
    with plug_in_of_guide("adding-a-sink.md", datasource_kinds, folder) as kind:
        made: Any = datasource_kinds[kind].options
        sink = opened(kind, made(path=str(path)))
        place = sink.destination(PLACE).name

        def rows(statement: str, *values: str) -> list[Any]:
            with closing(sqlite3.connect(path)) as database, database:
                return database.execute(statement, (place, *values)).fetchall()

        def by_hand(record: str, values: Mapping[str, str]) -> None:
            rows("INSERT OR REPLACE INTO settings VALUES (?, ?, ?, '')", record, *values.values())

        sink.read(sink.destination(PLACE), Unit(sink).owner, [])  # makes the tables
        yield World(
            sink=sink,
            by_hand=by_hand,
            dump=lambda: rows("SELECT * FROM settings WHERE place = ? ORDER BY key"),
            bad_destinations=("a\nb",),
        )


WORLDS["file-document"] = _file(UpdateStrategy.DOCUMENT)
WORLDS["file-yaml"] = _file(UpdateStrategy.DOCUMENT, other="folder", format="yaml")
WORLDS["file-toml"] = _file(UpdateStrategy.DOCUMENT, format="toml")
WORLDS["file-properties"] = _file(UpdateStrategy.DOCUMENT, format="properties")
WORLDS["file-key_value"] = _file(UpdateStrategy.KEY_VALUE)
WORLDS["file-file"] = _file(UpdateStrategy.FILE)


def _redis(strategy: UpdateStrategy, structure: RedisStructure, **options: Any) -> Worlds:
    @contextmanager
    def build(_folder: Path) -> Iterator[World]:
        address = parts.need("TEST_REDIS_ADDR", "a Redis server")
        name = f"test:{uuid4().hex}"
        made = RedisOptions(hosts=(address,), db=7, data_structure=structure, **options)
        sink = opened("redis", made, update_strategy=strategy)
        host, _, port = address.rpartition(":")
        client = Redis(host=host, port=int(port), db=7)

        def by_hand(record: str, values: Mapping[str, str]) -> None:
            text = next(iter(values.values()))
            if structure is RedisStructure.STRING:
                client.set(f"{name}:{record}", text)
            elif strategy is UpdateStrategy.DOCUMENT:
                client.set(name, json.dumps(values))
            else:
                whole = strategy is UpdateStrategy.FILE
                client.hset(name, record, json.dumps(values) if whole else text)

        def other_type(record: str) -> None:
            key = f"{name}:{record}" if structure is RedisStructure.STRING else name
            client.delete(key)
            client.rpush(key, "theirs")

        def dump() -> dict[bytes, bytes | None]:
            keys = [key for key in client.scan_iter(f"{name}*") if not key.endswith(b"__partita__")]
            return {key: client.dump(key) for key in sorted(keys)}

        yield World(
            sink=sink,
            by_hand=by_hand,
            other_type=other_type,
            dump=dump,
            rendered=name,
            bad_keys=("__partita__", ""),
            bad_destinations=("partita:broker", "a\r\nb", "x:__partita__"),
        )
        client.delete(*client.scan_iter(f"{name}*"), "-")
        client.close()

    return build


WORLDS["redis-hash"] = _redis(UpdateStrategy.KEY_VALUE, RedisStructure.HASH)
WORLDS["redis-hash-small-batches"] = _redis(
    UpdateStrategy.KEY_VALUE, RedisStructure.HASH, pipeline_batch_size=2
)
WORLDS["redis-string"] = _redis(UpdateStrategy.KEY_VALUE, RedisStructure.STRING)
WORLDS["redis-json"] = _redis(UpdateStrategy.DOCUMENT, RedisStructure.JSON)
WORLDS["redis-file"] = _redis(UpdateStrategy.FILE, RedisStructure.HASH)


def _s3(strategy: UpdateStrategy, **options: Any) -> Worlds:
    @contextmanager
    def build(_folder: Path) -> Iterator[World]:
        client = s3_server.client()
        bucket = f"b{uuid4().hex}"
        client.create_bucket(Bucket=bucket)
        made = S3Options(bucket=bucket, **s3_server.options(), **options)
        sink = opened("s3", made, update_strategy=strategy)

        def by_hand(record: str, values: Mapping[str, str]) -> None:
            body = document(values, writable_format(record) or "json", Style())
            if strategy is UpdateStrategy.KEY_VALUE:
                body = next(iter(values.values())).encode()
            client.put_object(Bucket=bucket, Key=record, Body=body)

        def dump() -> dict[str, bytes]:
            names = [
                each["Key"] for each in client.list_objects_v2(Bucket=bucket).get("Contents", ())
            ]
            return {
                name: client.get_object(Bucket=bucket, Key=name)["Body"].read() for name in names
            }

        yield World(
            sink=sink,
            by_hand=by_hand,
            dump=dump,
            rendered="shop/production",
            bad_keys=("../x", "a//b", "/a", "a/../b")
            if strategy is UpdateStrategy.KEY_VALUE
            else (),
            bad_destinations=("../x", "/a", "a//b", "a/../b", "a\nb"),
        )

    return build


WORLDS["s3-document"] = _s3(UpdateStrategy.DOCUMENT)
WORLDS["s3-yaml"] = _s3(UpdateStrategy.DOCUMENT, file_pattern="app.yaml")
WORLDS["s3-key_value"] = _s3(UpdateStrategy.KEY_VALUE)
WORLDS["s3-file"] = _s3(UpdateStrategy.FILE)
WORLDS["s3-unconditional"] = _s3(UpdateStrategy.DOCUMENT, conditional_writes=ConditionalWrites.OFF)


def _mongo(strategy: UpdateStrategy, **fields: Any) -> Worlds:
    @contextmanager
    def build(_folder: Path) -> Iterator[World]:
        if not (uri := parts.address("MONGO_URI") or parts.address("MONGODB_URI")):
            pytest.skip("needs a MongoDB server: MONGO_URI is not set")
        client: MongoClient[dict[str, Any]] = MongoClient(uri)
        name = f"c{uuid4().hex}"
        documents = client["partita_sink_tests"][name]
        options = MongoOptions(endpoint=uri, database="partita_sink_tests", collection=name)
        sink = opened("mongo", options, update_strategy=strategy, **fields)

        def by_hand(record: str, values: Mapping[str, str]) -> None:
            if strategy is UpdateStrategy.KEY_VALUE:
                ((key, value),) = values.items()
                documents.replace_one({"_id": record}, {"key": key, "value": value}, upsert=True)
            else:
                documents.replace_one({"_id": record}, {"data": dict(values)}, upsert=True)

        yield World(
            sink=sink,
            by_hand=by_hand,
            dump=lambda: list(documents.find(sort=[("_id", 1)])),
            bad_keys=("$where",),
            bad_destinations=("system.users", "partita_tasks", "x" * 121, "a\r\nb"),
        )
        documents.drop()
        client.close()

    return build


WORLDS["mongo-key_value"] = _mongo(UpdateStrategy.KEY_VALUE)
WORLDS["mongo-document"] = _mongo(UpdateStrategy.DOCUMENT)
WORLDS["mongo-nested"] = _mongo(UpdateStrategy.DOCUMENT, output_shape=OutputShape.NESTED)
WORLDS["mongo-file"] = _mongo(UpdateStrategy.FILE)


def _configmap(strategy: UpdateStrategy, **options: Any) -> Worlds:
    @contextmanager
    def build(_folder: Path) -> Iterator[World]:
        with kubernetes_api.serving() as api:
            made = ConfigMapOptions(
                namespace="apps", configmap_name="shop", api_server=api.server, **options
            )
            path = "/api/v1/namespaces/apps/configmaps/shop-production"

            def by_hand(record: str, values: Mapping[str, str]) -> None:
                whole = strategy is not UpdateStrategy.KEY_VALUE
                known = writable_format(record) or "json"
                text = document(values, known, Style()).decode() if whole else values[record]
                api.by_hand(path, {record: text})

            def other_type(record: str) -> None:
                found = api.objects.get(path) or {}
                (found.get("data") or {}).pop(record, None)
                api.by_hand(path, {}, binaryData={record: "AA=="})

            yield World(
                sink=opened("configmap", made, update_strategy=strategy),
                by_hand=by_hand,
                other_type=other_type,
                dump=lambda: [
                    (api.objects.get(path) or {}).get(name) for name in ("data", "binaryData")
                ],
                bad_keys=("a/b", "..", "a b", "x" * 254)
                if strategy is UpdateStrategy.KEY_VALUE
                else (),
                bad_destinations=("../x", "Upper", "a_b", "a/b", "x" * 254, "-a"),
            )

    return build


WORLDS["configmap-key_value"] = _configmap(UpdateStrategy.KEY_VALUE)
WORLDS["configmap-document"] = _configmap(UpdateStrategy.DOCUMENT)
WORLDS["configmap-file"] = _configmap(UpdateStrategy.FILE)
