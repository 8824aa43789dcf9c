"""Texts of contracts as templates that render to themselves (reference: control-plane 18.6)."""

from __future__ import annotations

import re
from typing import Final

_FOREIGN: Final = re.compile(
    r"\{\{(?!\s*(?:request|response|state|suite|operation|match|execution)\b)"
)


def literal(text: str) -> str:
    """Return a text whose `{{` stay as they are, unless a value of Partita is named there."""
    return _FOREIGN.sub("{{'{{'}}", text) if "{{" in text else text
