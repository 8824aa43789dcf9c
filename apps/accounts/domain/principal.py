"""Who acts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A signed-in account and the credential it came with.

    `is_admin`, `workspace_id` and the names are the store's, never the token's. Exactly one of
    `token_jti` (access token) and `session_hash` (UI session) is set; `expires_at` is that
    credential's end. A stream ticket yields the principal of whoever asked for it.
    """

    user_id: UUID
    workspace_id: UUID
    is_admin: bool
    full_name: str
    email: str
    expires_at: datetime
    token_jti: str = ""
    session_hash: str = ""

    @property
    def key(self) -> str:
        """Counts limits: one account, whatever the credential."""
        return str(self.user_id)

    @property
    def is_authenticated(self) -> bool:
        """What the REST framework asks of a user."""
        return True
