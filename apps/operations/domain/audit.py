"""What is recorded of an answered request (reference: control-plane 2)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from apps.observability.api import mask_tokens
from kernel.clock import rfc3339

_PREFIXES: Final = ("/api/", "/accounts/")
_FORMS: Final = frozenset({"/sign-in", "/sign-up", "/forgot-password", "/reset-password"})
_MAX_PATH: Final = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """One record; `path` has no query and no token."""

    time: datetime
    request_id: str
    method: str
    route: str
    path: str
    status: int
    duration_ms: int
    remote_addr: str
    user_id: str = ""
    workspace_id: str = ""
    agent_id: str = ""

    def as_dict(self) -> dict[str, str | int]:
        """The wire form, `type` first; ids that are not known are left out."""
        who = {
            "userId": self.user_id,
            "workspaceId": self.workspace_id,
            "agentId": self.agent_id,
        }
        known: dict[str, str | int] = {
            "type": "http.audit",
            "time": rfc3339(self.time),
            "requestId": self.request_id,
            "method": self.method,
            "route": self.route,
            "path": self.path,
            "status": self.status,
            "durationMs": self.duration_ms,
            "remoteAddr": self.remote_addr,
        }
        return known | {name: value for name, value in who.items() if value}


def is_audited(method: str, path: str) -> bool:
    """API and accounts, health twins excluded, and posts to the sign-in pages."""
    if path.startswith("/api/v1/system/"):
        return False
    return path.startswith(_PREFIXES) or (method == "POST" and path in _FORMS)


def recorded_path(path: str) -> str:
    """The path without what looks like a token, in characters that every store takes."""
    clean = path.replace("\x00", "\ufffd").encode(errors="replace").decode()
    return mask_tokens(clean)[:_MAX_PATH]
