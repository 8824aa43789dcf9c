"""Bundles for tests: a small valid one as plain values, changed and read."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from readers.tree import Kind, Tree
from sync_stack.core.bundle.model import Bundle
from sync_stack.core.bundle.validation import BundleReading, read_bundle

SMALL: dict[str, Any] = {
    "platforms": [{"github": {"secret": "a-webhook-secret"}}],
    "datasources": [
        {"mongo": {"endpoint": "mongodb://mongo:27017"}},
        {"redis": {"host": "redis"}},
    ],
    "rules": [
        {
            "name": "shop",
            "platform": "github",
            "datasource": "mongo",
            "repositories": ["acme/*"],
            "file_name": "config/app.yaml",
            "branch_map": {"main": "production"},
        }
    ],
}


def changed(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """The small bundle's plain values after a change in place."""
    bundle = copy.deepcopy(SMALL)
    change(bundle)
    return bundle


def read(plain: Any, **options: Any) -> BundleReading:
    return read_bundle(tree_of({"bundle": plain}), file="config.cue", **options)


def read_changed(change: Callable[[dict[str, Any]], Any], **options: Any) -> BundleReading:
    return read(changed(change), **options)


def with_rule(**fields: Any) -> BundleReading:
    return read_changed(lambda bundle: bundle["rules"][0].update(fields))


def with_datasource(kind: str, **fields: Any) -> BundleReading:
    """The small bundle with one more datasource."""
    return read_changed(lambda bundle: bundle["datasources"].append({kind: fields}))


def with_platform(kind: str, **fields: Any) -> BundleReading:
    return read_changed(lambda bundle: bundle["platforms"].append({kind: fields}))


def valid(reading: BundleReading) -> Bundle:
    """Its bundle; fails with its complaints when there is none."""
    assert reading.bundle is not None, "\n".join(map(str, reading.complaints))
    return reading.bundle


def codes(reading: BundleReading) -> list[str]:
    """`path code` of each complaint, warnings with a `?`."""
    return [
        f"{entry.path} {entry.code}{'?' if entry.severity == 'warning' else ''}"
        for entry in reading.complaints
    ]


def tree_of(plain: Any) -> Tree:
    """Plain values as a tree without places."""
    if isinstance(plain, dict):
        return Tree(kind=Kind.MAP, pairs={key: tree_of(value) for key, value in plain.items()})
    if isinstance(plain, list):
        return Tree(kind=Kind.LIST, items=tuple(tree_of(item) for item in plain))
    return Tree(kind=_SCALARS[type(plain)], text="" if plain is None else _spelt(plain))


def _spelt(plain: Any) -> str:
    return str(plain).lower() if isinstance(plain, bool) else str(plain)


_SCALARS = {
    bool: Kind.BOOL,
    int: Kind.NUMBER,
    float: Kind.NUMBER,
    type(None): Kind.NULL,
    str: Kind.STRING,
}
