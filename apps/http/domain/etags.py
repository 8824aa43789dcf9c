"""Strong entity tags and the two conditions of RFC 9110 that Partita honours."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

_TAG = re.compile(r'(?:W/)?"[^"]*"')


def strong_etag(document: Any) -> str:
    """A quoted digest of a JSON document, the same for equal documents whatever the key order."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def is_not_modified(etag: str, if_none_match: str) -> bool:
    """Weak comparison: the tag, its weak form or `*` is listed."""
    return _lists(if_none_match, etag, weak=True)


def is_precondition_met(etag: str, if_match: str) -> bool:
    """Strong comparison: the tag or `*` is listed; an absent header is always met."""
    return not if_match.strip() or _lists(if_match, etag, weak=False)


def _lists(header: str, etag: str, *, weak: bool) -> bool:
    if header.strip() == "*":
        return True
    tags = _TAG.findall(header)
    return etag in tags or (weak and f"W/{etag}" in tags)
