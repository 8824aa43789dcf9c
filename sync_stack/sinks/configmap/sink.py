"""Kubernetes ConfigMaps (reference: sync-stack 5, configmap): one PUT at the version that was read.

Which unit owns which data keys stands in the annotation `partita.io/owned`, a JSON list of
markers, each with its keys: several units may share a ConfigMap.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

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
from sync_stack.sinks.configmap import CONFIGMAP, ConfigMapOptions, OnConflict
from sync_stack.sinks.configmap.client import Cluster, ConfigMapChanges, Object
from sync_stack.sinks.documents import bytes_of, text_of
from sync_stack.sinks.marks import MANAGED_BY, generation_of, mark_fields, mark_from, refuse_stale
from sync_stack.sinks.open_sinks import Resolve, SharedClient

MAX_BYTES: Final = 1_048_576
LABEL: Final = "app.kubernetes.io/managed-by"
_PREFIX: Final = "partita.io/"
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_KEY: Final = re.compile(r"(?!\.\.?$|\.\.)[-._a-zA-Z0-9]{1,253}")
Change = Callable[[Object, dict[str, str], "Owners"], None]


class Owners:
    """Whose the data keys are."""

    def __init__(self, text: str) -> None:
        try:
            entries = json.loads(text) if text else []
        except ValueError:
            entries = []
        self._marks: dict[str, TargetMarker] = {}
        for entry in entries if isinstance(entries, list) else []:
            mark = mark_from(entry)
            if mark:
                self._marks |= dict.fromkeys(map(str, entry.get("keys", ())), mark)

    def __getitem__(self, key: str) -> TargetMarker | None:
        return self._marks.get(key)

    def take(self, key: str, mark: TargetMarker | None) -> None:
        self._marks.pop(key, None)
        if mark:
            self._marks[key] = mark

    def renew(self, mark: TargetMarker) -> None:
        """Replace the markers of the same unit by this one, the newest."""
        owner = Owner(rule=mark.rule, repo=mark.repo, env=mark.env)
        ours = [key for key, found in self._marks.items() if owner.owns(found)]
        self._marks |= dict.fromkeys(ours, mark)

    def text(self) -> str:
        units: dict[str, Object] = {}
        for key, mark in sorted(self._marks.items()):
            name = json.dumps([mark.rule, mark.repo, mark.env])
            units.setdefault(name, mark_fields(mark) | {"keys": []})["keys"].append(key)
        return json.dumps(list(units.values()), sort_keys=True, ensure_ascii=False)


class ConfigMapSink(BaseSink[ConfigMapOptions]):
    """`record` is a key of the ConfigMap's `data`."""

    def __init__(self, datasource: Datasource, options: ConfigMapOptions, resolve: Resolve) -> None:
        super().__init__(datasource, options)
        self._fixed_format = options.data_format if self._is_document else ""
        self._open = partial(Cluster, options, self._timeouts, resolve)
        self._cluster = SharedClient(self._open)
        self.capabilities = replace(
            self.capabilities,
            marks_records=not self._by_key,
            adopts_unmarked=self._by_key,
            atomic=True,
            foreign_listing=True,
            implied_prune=options.on_conflict is OnConflict.REPLACE,
            refuses_foreign=options.on_conflict is OnConflict.FAIL,
            replans=3,
            max_bytes=MAX_BYTES,
            key_formats=CONFIGMAP.key_formats,
        )

    def changes(self) -> Changes:
        return ConfigMapChanges(self._open)

    def destination(self, place: TargetPlace) -> Destination:
        options = self._options
        as_namespace = place.overrides.get("env_as_namespace", options.env_as_namespace)
        suffix = place.overrides.get("env_as_name_suffix", options.env_as_name_suffix)
        if suffix is None:
            suffix = not as_namespace
        namespace = place.env if as_namespace else options.namespace
        default = f"{options.configmap_name}-{place.env}" if suffix else options.configmap_name
        name = place.rendered or default
        for part in (namespace, name):
            if not _NAME.fullmatch(part):
                raise SinkError(
                    "destination_invalid", f"{part[:80]!r} is not a valid Kubernetes name"
                )
        server = options.api_server or f"{options.kubeconfig_path}#{options.context}"
        return Destination(
            kind="configmap",
            name=f"{namespace}/{name}",
            address=f"{server.rstrip('/').lower()}/{namespace}/{name}",
        )

    def record(self, place: TargetPlace, destination: Destination, key: str, file: str) -> str:
        if self._is_document:
            return self._options.data_key
        name = key if self._by_key else file.rsplit("/", 1)[-1]
        if not _KEY.fullmatch(name):
            raise SinkError("key_invalid", f"{name[:80]!r} is not a valid ConfigMap key")
        return name

    def read(self, destination: Destination, owner: Owner, records: Collection[str]) -> Live:
        found = self._cluster().get(*_split(destination))
        if found is None:
            return Live()
        data, owners = _data(found), _owners(found)
        ours = {key for key in data if owner.owns(owners[key])}
        wanted = (set(records) | ours) & data.keys()
        live = {
            key: LiveRecord(
                values=self._values(key, key, bytes_of(data[key])),
                mark=owners[key],
                version=_version(data[key]),
            )
            for key in wanted
        }
        binary = frozenset(found.get("binaryData") or {})
        unowned = not _is_ours(found) and self._options.on_conflict is not OnConflict.PATCH
        return Live(
            records=live,
            foreign=frozenset(data.keys() - wanted) | (binary - set(records)),
            unowned=unowned,
            mistyped=binary & set(records),
        )

    def write(self, destination: Destination, puts: Sequence[Put], mark: TargetMarker) -> None:
        texts = {record: text_of(body) for record, body in self._bodies(puts).items()}

        def change(target: Object, data: dict[str, str], owners: Owners) -> None:
            for put in puts:
                _make_room(target, put)
                _refuse_changed(data, put.record, "" if put.version == MISTYPED else put.version)
                data[put.record] = texts[put.record]
                owners.take(put.record, mark if put.marked else None)
            owners.renew(mark)

        self._change(destination, mark.generation, change, mark=mark)

    def delete(
        self, destination: Destination, deletes: Sequence[Delete], owner: Owner, generation: int
    ) -> None:
        def change(_target: Object, data: dict[str, str], owners: Owners) -> None:
            for gone in _deletable(deletes, data, owners, owner):
                _refuse_changed(data, gone.record, gone.version)
                del data[gone.record]
                owners.take(gone.record, None)

        self._change(destination, generation, change)

    def fence(self, destination: Destination, owner: Owner, generation: int) -> None:
        found = self._cluster().get(*_split(destination))
        if found and _is_ours(found) and _generation(found) < generation:
            _annotations(found)[f"{_PREFIX}generation"] = str(generation)
            self._cluster().replace(*_split(destination), found)

    def close(self) -> None:
        self._cluster.close()

    def _change(
        self,
        destination: Destination,
        generation: int,
        change: Change,
        *,
        mark: TargetMarker | None = None,
    ) -> None:
        """Read, change, and put back at the version that was read."""
        namespace, name = _split(destination)
        found = self._cluster().get(namespace, name)
        if found is None and mark is None:
            return
        target = found or {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace},
        }
        refuse_stale(_generation(target), generation)
        data, owners = _data(target), _owners(target)
        before = dict(data)
        change(target, data, owners)
        if target.get("immutable") is True and data != before:
            raise SinkError("immutable_destination", f"ConfigMap {destination.name} is immutable")
        self._describe(target, owners, generation, mark)
        target["data"] = data
        _refuse_large(target, destination)
        if found is None:
            self._create(namespace, target)
        else:
            self._cluster().replace(namespace, name, target)

    def _create(self, namespace: str, target: Object) -> None:
        if self._options.immutable:
            target["immutable"] = True
        if self._cluster().create(namespace, target):
            return
        if self._options.create_namespace:
            self._cluster().create_namespace(namespace)
            if self._cluster().create(namespace, target):
                return
        raise SinkError("destination_invalid", f"there is no namespace {namespace!r}")

    def _describe(
        self, target: Object, owners: Owners, generation: int, mark: TargetMarker | None
    ) -> None:
        metadata = target["metadata"]
        labels = {**(metadata.get("labels") or {}), **self._options.labels, LABEL: MANAGED_BY}
        metadata["labels"] = labels
        annotations = _annotations(target)
        annotations |= self._options.annotations
        annotations[f"{_PREFIX}generation"] = str(generation)
        annotations[f"{_PREFIX}owned"] = owners.text()
        if mark:
            for name in ("rule", "env", "commit"):
                annotations[f"{_PREFIX}{name}"] = str(getattr(mark, name))


def _split(destination: Destination) -> tuple[str, str]:
    namespace, _, name = destination.name.partition("/")
    return namespace, name


def _annotations(target: Object) -> dict[str, str]:
    metadata = target["metadata"]
    metadata["annotations"] = dict(metadata.get("annotations") or {})
    found: dict[str, str] = metadata["annotations"]
    return found


def _data(target: Mapping[str, Any]) -> dict[str, str]:
    return dict(target.get("data") or {})


def _owners(target: Mapping[str, Any]) -> Owners:
    annotations = target["metadata"].get("annotations") or {}
    return Owners(annotations.get(f"{_PREFIX}owned", "") if _is_ours(target) else "")


def _is_ours(target: Mapping[str, Any]) -> bool:
    labels: Mapping[str, Any] = target["metadata"].get("labels") or {}
    return labels.get(LABEL) == MANAGED_BY


def _generation(target: Mapping[str, Any]) -> int:
    annotations = target["metadata"].get("annotations") or {}
    return generation_of(annotations.get(f"{_PREFIX}generation", "0"))


def _deletable(
    deletes: Iterable[Delete], data: Mapping[str, str], owners: Owners, owner: Owner
) -> Iterable[Delete]:
    """What is there and does not bear another unit's mark."""
    for gone in deletes:
        mark = owners[gone.record]
        if gone.record in data and (mark is None or owner.owns(mark)):
            yield gone


def _version(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _refuse_changed(data: Mapping[str, str], key: str, version: str) -> None:
    if (_version(data[key]) if key in data else "") != version:
        raise SinkConflict(f"{key!r} changed after it was read")


def _make_room(target: Object, put: Put) -> None:
    """Kubernetes takes no key in `data` and `binaryData` at once."""
    binary = dict(target.get("binaryData") or {})
    if put.record not in binary:
        return
    if put.version != MISTYPED:
        raise SinkConflict(f"{put.record!r} holds binary data")
    del binary[put.record]
    target["binaryData"] = binary


def _refuse_large(target: Object, destination: Destination) -> None:
    texts = [*target["data"].items(), *(target.get("binaryData") or {}).items()]
    size = sum(len(key.encode()) + len(text.encode()) for key, text in texts)
    if size > MAX_BYTES:
        detail = f"ConfigMap {destination.name} would have {size} bytes, the limit is {MAX_BYTES}"
        raise SinkError("destination_too_large", detail)
