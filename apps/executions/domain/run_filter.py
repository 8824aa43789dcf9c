"""What a list of runs is narrowed by."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Empty and None mean any.

    `since` (included) and `until` (not included) are compared with the time of acceptance;
    `words` is looked for in ids, titles and what the run's author said of it.
    """

    statuses: frozenset[str] = frozenset()
    suite_id: str = ""
    profile: str = ""
    backend_id: str = ""
    trigger: str = ""
    words: str = ""
    since: datetime | None = None
    until: datetime | None = None
