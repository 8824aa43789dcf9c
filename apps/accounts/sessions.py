"""Django's session engine for the UI: the store holds a hash of the key, and the user."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.base import CreateError, SessionBase, UpdateError
from django.core import signing

from apps.accounts.domain.tokens import hash_token, new_opaque_token
from apps.accounts.models import UiSession
from kernel.clock import now

SIGNED_IN_FROM = "signed_in_from"  # address and user agent of the sign-in
_SALT = "partita.ui-session"
Content = dict[str, Any]  # what Django keeps in a session


class SessionStore(SessionBase):
    """A session, which ends `SESSION_COOKIE_AGE` after its last change."""

    def __init__(self, session_key: str | None = None) -> None:
        super().__init__(session_key)
        self.expires_at: datetime | None = None  # as stored; None until it was read or written

    @property
    def key_hash(self) -> str:
        """The key of this session in the store; empty before it is saved."""
        return hash_token(self.session_key) if self.session_key else ""

    def load(self) -> Content:
        row = UiSession.objects.alive().filter(key_hash=self.key_hash).first()
        if row is None:
            self._session_key = None
            return {}
        self.expires_at = row.expires_at
        return self.decode(row.data)

    def exists(self, session_key: str) -> bool:
        return UiSession.objects.filter(key_hash=hash_token(session_key)).exists()

    def create(self) -> None:
        self._session_key = new_opaque_token()
        self.save(must_create=True)
        self.modified = True

    def save(self, must_create: bool = False) -> None:  # noqa: FBT001, FBT002 - Django's
        """Store the session; raise UpdateError when it was deleted (revoked) in the meantime."""
        if self.session_key is None:
            self.create()
            return
        if must_create and not hasattr(self, "_session_cache"):
            self.clear()  # a session with a new key is not looked up
        content = dict(self.items())
        self.expires_at = self.get_expiry_date()
        fields = {
            "data": self.encode(content),
            "user_id": content.get(SESSION_KEY),
            "expires_at": self.expires_at,
        }
        if must_create:
            if self.exists(self.session_key):
                raise CreateError
            UiSession.objects.create(key_hash=self.key_hash, **fields)
        elif not UiSession.objects.filter(key_hash=self.key_hash).update(**fields):
            raise UpdateError

    def delete(self, session_key: str | None = None) -> None:
        key = session_key or self.session_key
        if key is not None:
            UiSession.objects.filter(key_hash=hash_token(key)).delete()

    @classmethod
    def clear_expired(cls) -> None:
        UiSession.objects.filter(expires_at__lte=now()).delete()

    def encode(self, session_dict: Content) -> str:
        return signing.dumps(session_dict, salt=_SALT, compress=True)

    def decode(self, session_data: bytes | str) -> Content:
        """Return the content; empty when it is unreadable, as after a change of SECRET_KEY."""
        try:
            content: Content = signing.loads(str(session_data), salt=_SALT)
        except signing.BadSignature:
            return {}
        return content
