"""Errors of credentials and accounts.

PlatformError
├── Unauthenticated      401 unauthenticated, token_*, ticket_invalid, refresh_*, …
├── Forbidden            403 admin_required, role_required, csrf_failed, sign_up_disabled, …
├── WeakPassword         400
├── EmailTaken           409
├── InvitationInvalid    400
├── ResetTokenInvalid    400
├── LastWorkspaceAdmin   409
├── ExternalSignInRefused    the code of the redirect, see `SIGN_IN_FAILURES`
└── TooManyAttempts      429 rate_limited, account_locked; carries Retry-After
"""

from __future__ import annotations

from kernel.errors import PlatformError


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


class LastWorkspaceAdmin(PlatformError):
    """A workspace keeps at least one member with the role admin."""

    code = "last_workspace_admin"


class ExternalSignInRefused(PlatformError):
    """A provider has answered, but nobody is signed in; the browser is told the code."""

    code = "oidc_provider_error"


class TooManyAttempts(PlatformError):
    """A limit is reached; a retry makes sense after `retry_after_s`."""

    code = "rate_limited"
