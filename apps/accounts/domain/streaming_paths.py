"""The four routes that stream, which alone take `?token=` (reference: control-plane 3)."""

from __future__ import annotations

import re
from typing import Final

_STREAMING: Final = re.compile(
    r"/api/v1/(?:executions/[^/]+/(?:events|logs)|engine/overview/stream|sandboxes/events)"
)


def is_streaming_path(path: str) -> bool:
    return _STREAMING.fullmatch(path) is not None
