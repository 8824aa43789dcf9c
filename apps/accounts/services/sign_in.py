"""Sign-in by password, for API clients and for browsers with a session cookie."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.contrib.auth import login
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX, check_password
from django.http import HttpRequest

from apps.accounts import conf
from apps.accounts.domain.account_rules import normalized_email
from apps.accounts.domain.errors import Forbidden, TooManyAttempts, Unauthenticated
from apps.accounts.models import User
from apps.accounts.selectors import find_user
from apps.accounts.services.authentication import principal_of, record_actor
from apps.accounts.services.rate_limits import (
    SIGN_IN,
    SIGN_UP,
    clear_attempts,
    count_attempt,
    limit_by_ip,
)
from apps.accounts.services.sign_up import sign_up
from apps.http.api import client_ip

_FAILURES: Final = "auth.failures"
_MAX_FAILURES: Final = 10
_FAILURE_WINDOW: Final = timedelta(minutes=10)


def sign_in(*, email: str, password: str, ip: str) -> User:
    """Return the account with this email address and password.

    Raise Forbidden (password_auth_disabled, account_disabled), TooManyAttempts (account_locked),
    Unauthenticated (invalid_credentials).
    """
    if not conf.password_sign_in_enabled():
        raise Forbidden("sign-in by password is turned off", code="password_auth_disabled")
    email = normalized_email(email)
    failure_key = f"{email}\0{ip}"
    # Counted before the password is checked, so that concurrent attempts cannot exceed the limit.
    wait_s = count_attempt(_FAILURES, failure_key, limit=_MAX_FAILURES, window=_FAILURE_WINDOW)
    if wait_s:
        raise TooManyAttempts(
            "too many failed sign-ins; try again later", code="account_locked", retry_after_s=wait_s
        )
    user = find_user(email)
    # An unknown address and an account without a password cost the same hash.
    encoded = user.password if user else UNUSABLE_PASSWORD_PREFIX
    if not check_password(password, encoded) or user is None:
        raise Unauthenticated(
            "the email address or the password is wrong", code="invalid_credentials"
        )
    clear_attempts(_FAILURES, failure_key)
    if not user.is_active:
        raise Forbidden("the account is disabled", code="account_disabled")
    return user


def sign_in_session(request: HttpRequest, email: str, password: str) -> User:
    """Sign in within the rate limit and set the session cookie; raise what `sign_in` raises."""
    limit_by_ip(request, SIGN_IN)
    user = sign_in(email=email, password=password, ip=client_ip(request))
    start_session(request, user)
    return user


def sign_up_session(
    request: HttpRequest, *, full_name: str, email: str, password: str, invitation: str = ""
) -> User:
    """Sign up within the rate limit and set the session cookie; raise what `sign_up` raises."""
    limit_by_ip(request, SIGN_UP)
    user = sign_up(full_name=full_name, email=email, password=password, invitation=invitation)
    start_session(request, user)
    return user


def start_session(request: HttpRequest, user: User) -> None:
    """Start a session with a new key and a new CSRF token; the previous session ends."""
    request.session.flush()
    login(request, user)  # also sets `request.user` and the time of the last sign-in
    record_actor(user.id, user.workspace_id, is_admin=user.is_admin)


def sign_out_session(request: HttpRequest) -> None:
    """Delete the session from the store; the response deletes the cookie."""
    principal_of(request)  # records the actor for the audit
    request.session.flush()
