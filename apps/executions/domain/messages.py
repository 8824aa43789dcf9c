"""Messages of log nodes: `{{suite}}`, `{{profile}}`, `{{total}}`, `{{healthy}}`, `{{env.NAME}}`."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PLACE = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_.]*)\s*\}\}")


def filled_in(message: str, *, env: Mapping[str, str], facts: Mapping[str, str]) -> str:
    """Names that nobody knows stay as they are written."""

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        if name.startswith("env."):
            return env.get(name[4:], match[0])
        return facts.get(name, match[0])

    return _PLACE.sub(replacement, message)
