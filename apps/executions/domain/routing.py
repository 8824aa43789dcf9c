"""Routing tags: which supervisors a backend's steps may go to (reference: control-plane 15.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def carries(routing_tags: Iterable[str], labels: Mapping[str, str]) -> bool:
    """Whether every tag, `key` or `key=value`, is among the labels."""
    return all(_has(labels, *tag.partition("=")) for tag in routing_tags)


def _has(labels: Mapping[str, str], key: str, equals: str, value: str) -> bool:
    return key in labels and (not equals or labels[key] == value)
