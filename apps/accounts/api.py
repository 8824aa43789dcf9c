"""Accounts: users, workspaces, credentials, rate limits. Depends on streams and system."""

from __future__ import annotations

from apps.accounts.conf import password_sign_in_enabled, sign_up_enabled
from apps.accounts.domain.errors import (
    EmailTaken,
    Forbidden,
    TooManyAttempts,
    Unauthenticated,
    WeakPassword,
)
from apps.accounts.domain.principal import Principal, visible_workspaces
from apps.accounts.lifespan import purge_expired
from apps.accounts.services.administrators import (
    FirstAdministrator,
    NoAdministrator,
    ensure_seed_admin,
    first_administrator,
    operator,
)
from apps.accounts.services.credentials import (
    authenticate_request,
    authenticate_stream,
    principal_of,
    recheck,
    require_session,
    signed_in,
)
from apps.accounts.services.rate_limits import rate_limited
from apps.accounts.services.sign_in import (
    sign_in,
    sign_in_session,
    sign_out_session,
    sign_up_session,
    start_session,
)
from apps.accounts.services.sign_up import sign_up
from apps.accounts.services.tokens import issue_tokens, revoke_everything

__all__ = [
    "EmailTaken",
    "FirstAdministrator",
    "Forbidden",
    "NoAdministrator",
    "Principal",
    "TooManyAttempts",
    "Unauthenticated",
    "WeakPassword",
    "authenticate_request",
    "authenticate_stream",
    "ensure_seed_admin",
    "first_administrator",
    "issue_tokens",
    "operator",
    "password_sign_in_enabled",
    "principal_of",
    "purge_expired",
    "rate_limited",
    "recheck",
    "require_session",
    "revoke_everything",
    "sign_in",
    "sign_in_session",
    "sign_out_session",
    "sign_up",
    "sign_up_enabled",
    "sign_up_session",
    "signed_in",
    "start_session",
    "visible_workspaces",
]
