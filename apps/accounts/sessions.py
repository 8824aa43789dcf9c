"""UI sessions as Django's session engine: the store keeps a hash of the key, and whose it is.

`request.session` works as everywhere in Django; `SESSION_ENGINE` names this module.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib.sessions.backends.base import CreateError, SessionBase, UpdateError
from django.core import signing

from apps.accounts.domain.opaque import hashed, new_opaque_token
from apps.accounts.models import UiSession
from kernel.clock import now

USER_ID = "userId"  # the key in `request.session`
_SALT = "partita.ui-session"


class SessionStore(SessionBase):
    """A session; it ends `SESSION_COOKIE_AGE` after its last change."""

    def __init__(self, session_key: str | None = None) -> None:
        super().__init__(session_key)
        self.expires_at: datetime | None = None  # as stored; known once it was read or written

    @property
    def key_hash(self) -> str:
        """What the store knows this session by; empty before it is saved."""
        return hashed(self.session_key) if self.session_key else ""

    def load(self) -> dict[str, Any]:
        row = UiSession.objects.filter(key_hash=self.key_hash, expires_at__gt=now()).first()
        if row is None:
            self._session_key = None
            return {}
        self.expires_at = row.expires_at
        return self.decode(row.data)

    def exists(self, session_key: str) -> bool:
        return UiSession.objects.filter(key_hash=hashed(session_key)).exists()

    def create(self) -> None:
        self._session_key = new_opaque_token()
        self.save(must_create=True)
        self.modified = True

    def save(self, must_create: bool = False) -> None:  # noqa: FBT001, FBT002 - Django's
        """Write it. Raises UpdateError when it was deleted meanwhile: a revoked one stays so."""
        if self.session_key is None:
            self.create()
            return
        content = self._content(load=not must_create)
        self.expires_at = self.get_expiry_date()
        fields = {
            "data": self.encode(content),
            "user_id": content.get(USER_ID),
            "expires_at": self.expires_at,
        }
        if must_create:
            self._insert(fields)
        elif not UiSession.objects.filter(key_hash=self.key_hash).update(**fields):
            raise UpdateError

    def delete(self, session_key: str | None = None) -> None:
        key = session_key or self.session_key
        if key is not None:
            UiSession.objects.filter(key_hash=hashed(key)).delete()

    @classmethod
    def clear_expired(cls) -> None:
        UiSession.objects.filter(expires_at__lte=now()).delete()

    def encode(self, session_dict: dict[str, Any]) -> str:
        return signing.dumps(session_dict, salt=_SALT, compress=True)

    def decode(self, session_data: bytes | str) -> dict[str, Any]:
        """Read it; an unreadable one (SECRET_KEY changed) is an empty one."""
        try:
            content: dict[str, Any] = signing.loads(str(session_data), salt=_SALT)
        except signing.BadSignature:
            return {}
        return content

    def _content(self, *, load: bool) -> dict[str, Any]:
        """What is to be saved; a session whose key was just made is not looked up."""
        if not load and not hasattr(self, "_session_cache"):
            self.clear()
        return dict(self.items())

    def _insert(self, fields: dict[str, Any]) -> None:
        if self.exists(self.session_key or ""):
            raise CreateError
        UiSession.objects.create(key_hash=self.key_hash, **fields)
