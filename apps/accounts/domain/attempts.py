"""Where attempts are counted."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol


class AttemptCounter(Protocol):
    """At most `limit` attempts of one key within any `window`, from all processes together.

    The window slides: an attempt counts for exactly `window`. A refused one does not count. Of
    any number at once, never more than the limit get through.
    """

    def count(self, key_hash: str, *, limit: int, window: timedelta) -> int:
        """0 when the attempt is within the limit, else the seconds until one would be."""
        ...
