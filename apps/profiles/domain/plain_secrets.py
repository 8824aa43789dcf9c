"""What looks like a secret in plain text."""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = re.compile(
    r"(PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|PRIVATE_?KEY|CREDENTIALS?)$", re.IGNORECASE
)
_VALUE: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}"
    r"|\bglpat-[A-Za-z0-9_-]{20}|\bxox[abprs]-[A-Za-z0-9-]{10}"
)
_SHORTEST: Final = 6  # characters; "app" of a throwaway database is none


def looks_secret(name: str, value: str) -> bool:
    """Return whether a variable's name or value is that of a secret."""
    named = len(value) >= _SHORTEST and _NAME.search(name)
    return bool(named or _VALUE.search(value))
