"""Documents of the MongoDB sink: what is sent, and what a live one means.

(reference: sync-stack 5, mongo)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from sync_stack.core.sink import LiveRecord, Put, TargetMarker
from sync_stack.sinks.marks import mark_fields, mark_from

METADATA: Final = "_partita"
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")  # what BSON surely holds
Document = dict[str, Any]
UNMARKED: Final = "unmarked"  # the version of a record that bears no marker


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
