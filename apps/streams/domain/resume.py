"""Where a stream goes on (reference: control-plane 12)."""

from __future__ import annotations

import re
from typing import Final

from kernel.errors import FieldError, InvalidInput

_WHOLE = re.compile(r"[0-9]+\Z")
_MOST_DIGITS: Final = 18
_BEYOND_ANY: Final = 10**_MOST_DIGITS  # a value beyond the last id counts as the last id


def resume_after(*, since: str | None, last_event_id: str | None) -> int:
    """The larger of the query's `since` and the header `Last-Event-ID`; 0 without either.

    A header that is no number counts as absent. Raises InvalidInput (`invalid_parameter`) for
    such a `since`.
    """
    if since is not None and not _WHOLE.match(since):
        wrong = FieldError(pointer="since", code="invalid_value", detail="must be an integer >= 0")
        raise InvalidInput(
            "since must be an integer of at least 0", code="invalid_parameter", errors=[wrong]
        )
    return max(_number(since), _number(last_event_id))


def _number(text: str | None) -> int:
    if text is None or not _WHOLE.match(text):
        return 0
    digits = text.lstrip("0")
    return int(digits or "0") if len(digits) <= _MOST_DIGITS else _BEYOND_ANY
