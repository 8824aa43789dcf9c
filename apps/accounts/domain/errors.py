"""Errors of credentials and accounts.

PlatformError
├── Unauthenticated      401 unauthenticated, token_*, ticket_invalid, refresh_*, ci_token_*, …
├── Forbidden            403 admin_required, role_required, csrf_failed, ci_refused, …
├── WeakPassword         400
├── EmailTaken           409
├── InvitationInvalid    400
├── ResetTokenInvalid    400
├── DeviceCodeRefused    400 authorization_pending, slow_down, access_denied, expired_token
├── LastWorkspaceAdmin   409
├── CiIssuerUnavailable  503
├── ExternalSignInRefused    the code of the redirect, see `SIGN_IN_FAILURES`
└── TooManyAttempts      429 rate_limited, account_locked; carries Retry-After
"""

from __future__ import annotations

from math import ceil
from typing import Final

from kernel.errors import PlatformError

_MOST_SECONDS: Final = 90  # said in seconds


class Unauthenticated(PlatformError):
    """The request has no credential, or an invalid one."""

    code = "unauthenticated"


class Forbidden(PlatformError):
    """The caller may not do this."""

    code = "admin_required"


class WeakPassword(PlatformError):
    """The password breaks the policy; `errors` lists the broken rules."""

    code = "weak_password"


class EmailTaken(PlatformError):
    """An account with this email address exists."""

    code = "email_taken"


class InvitationInvalid(PlatformError):
    """No invitation has this token, or it was used, revoked, or has expired."""

    code = "invitation_invalid"


class ResetTokenInvalid(PlatformError):
    """No reset link has this token, or it was used, replaced, or has expired."""

    code = "reset_token_invalid"


class DeviceCodeRefused(PlatformError):
    """A device code brings no token, not yet or not any more (RFC 8628, 3.5)."""

    code = "expired_token"


class LastWorkspaceAdmin(PlatformError):
    """A workspace keeps at least one member with the role admin."""

    code = "last_workspace_admin"


class CiIssuerUnavailable(PlatformError):
    """The keys of a CI token's issuer cannot be read now."""

    code = "ci_issuer_unavailable"


class ExternalSignInRefused(PlatformError):
    """A provider has answered, but nobody is signed in; the browser is told the code."""

    code = "oidc_provider_error"


class TooManyAttempts(PlatformError):
    """A limit is reached; the text and Retry-After say when a retry makes sense."""

    code = "rate_limited"

    def __init__(self, why: str, *, retry_after_s: int, code: str | None = None) -> None:
        minutes = ceil(retry_after_s / 60)
        wait = f"{retry_after_s} s" if retry_after_s <= _MOST_SECONDS else f"{minutes} min"
        detail = f"{why}; try again in {wait}"
        super().__init__(detail, code=code, retry_after_s=retry_after_s)
