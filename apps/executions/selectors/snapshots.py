"""Snapshots: what a run was launched with, read back. A snapshot never changes, so it is cached."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from threading import Lock
from typing import Any, Final
from uuid import UUID

from apps.executions.domain.step_shape import NodeShape, node_shapes
from apps.executions.models import Snapshot

_SHAPES_KEPT: Final = 256
_shapes: dict[UUID, Mapping[str, NodeShape]] = {}
_shapes_lock = Lock()


@lru_cache(maxsize=16)
def suite_of(snapshot_id: UUID) -> Mapping[str, Any]:
    """The suite definition as on the wire, at the time of the launch.

    (reference: control-plane 9)
    """
    packed = Snapshot.objects.values_list("document", flat=True).get(pk=snapshot_id)
    suite: Mapping[str, Any] = _unpacked(packed)["suite"]
    return suite


def shapes_of(snapshot_ids: Iterable[UUID]) -> dict[UUID, Mapping[str, NodeShape]]:
    """Snapshot id → step id → its edges; one query for all that are not in memory."""
    wanted = set(snapshot_ids)
    with _shapes_lock:
        known = {pk: _shapes[pk] for pk in wanted & _shapes.keys()}
    if missing := wanted - known.keys():
        read = _read_shapes(missing)
        _keep_shapes(read)
        known |= read
    return known


def _read_shapes(snapshot_ids: Iterable[UUID]) -> dict[UUID, Mapping[str, NodeShape]]:
    rows = Snapshot.objects.filter(pk__in=list(snapshot_ids)).values_list("pk", "document")
    return {pk: node_shapes(_unpacked(packed)["suite"]["topology"]) for pk, packed in rows}


def _keep_shapes(read: Mapping[UUID, Mapping[str, NodeShape]]) -> None:
    with _shapes_lock:
        _shapes.update(read)
        for pk in list(_shapes)[:-_SHAPES_KEPT]:
            del _shapes[pk]


def _unpacked(packed: bytes | memoryview) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(zlib.decompress(packed))
    return document
