"""What REST views of other apps use of this one; `api` has the rest."""

from __future__ import annotations

from apps.accounts.rest.authentication import IsAdmin, IsSignedIn, SessionAuthentication

__all__ = ["IsAdmin", "IsSignedIn", "SessionAuthentication"]
