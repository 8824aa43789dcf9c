"""What can go wrong with a credential or an account.

PlatformError
├── Unauthenticated      401 unauthenticated, token_*, ticket_invalid, refresh_*, …
├── Forbidden            403 admin_required, csrf_failed, sign_up_disabled, …
├── WeakPassword         400
├── EmailTaken           409
└── TooManyAttempts      429 rate_limited, account_locked; carries Retry-After
"""

from __future__ import annotations

from kernel.errors import PlatformError


class Unauthenticated(PlatformError):
    """There is no credential, or the one that is there does not count."""

    code = "unauthenticated"


class Forbidden(PlatformError):
    """The caller is known and may not do this."""

    code = "admin_required"


class WeakPassword(PlatformError):
    """The password breaks the policy; `errors` say how."""

    code = "weak_password"


class EmailTaken(PlatformError):
    """There is an account with this mail."""

    code = "email_taken"


class TooManyAttempts(PlatformError):
    """A limit is reached; `retry_after_s` says when to come back."""

    code = "rate_limited"
