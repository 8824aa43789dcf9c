"""Markers as text: the metadata of a unit as names and values, and back.

(reference: sync-stack 5)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from sync_stack.core.sink import SinkError, TargetMarker

MANAGED_BY: Final = "partita"
_TEXTS: Final = ("rule", "tenant", "datasource", "env", "repo", "ref", "commit", "updated_at")


def mark_fields(mark: TargetMarker, *, file: str = "") -> dict[str, object]:
    """Return all of the metadata as text, but `generation` as a number and `tags` as a map."""
    texts = {name: getattr(mark, name) for name in _TEXTS}
    return {
        "managed_by": MANAGED_BY,
        **texts,
        "file": file,
        "generation": mark.generation,
        "tags": dict(mark.tags),
    }


def mark_from(fields: object) -> TargetMarker | None:
    """Return the marker, None for what is no marker of ours."""
    if not isinstance(fields, Mapping) or fields.get("managed_by") != MANAGED_BY:
        return None
    texts = {name: str(fields.get(name, "")) for name in _TEXTS}
    tags = fields.get("tags")
    return TargetMarker(
        generation=generation_of(fields.get("generation")),
        tags={str(k): str(v) for k, v in tags.items()} if isinstance(tags, Mapping) else {},
        **texts,
    )


def generation_of(value: object) -> int:
    """0 for what is not a number: such a record is as old as can be."""
    try:
        return int(str(value))
    except ValueError:
        return 0


def refuse_stale(seen: int, generation: int) -> None:
    """Raises SinkError(stale_generation) after a writer of a higher generation."""
    if seen > generation:
        raise SinkError("stale_generation", f"a newer writer (generation {seen}) wrote here")


def mark_text(mark: TargetMarker, *, file: str = "") -> str:
    return json.dumps(mark_fields(mark, file=file), sort_keys=True, ensure_ascii=False)


def mark_of_text(text: str | bytes | None) -> TargetMarker | None:
    try:
        return mark_from(json.loads(text)) if text else None
    except ValueError:
        return None
