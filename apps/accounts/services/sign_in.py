"""Passwords: the right one lets in, ten wrong ones in ten minutes lock."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX, check_password

from apps.accounts import conf
from apps.accounts.domain.errors import Forbidden, TooManyAttempts, Unauthenticated
from apps.accounts.domain.people import normalized_email
from apps.accounts.models import User
from apps.accounts.selectors import find_user
from apps.accounts.services.limits import clear_attempts, count_attempt

_FAILURES: Final = "auth.failures"
_MAX_FAILURES: Final = 10
_FAILURE_WINDOW: Final = timedelta(minutes=10)


def sign_in(*, email: str, password: str, ip: str) -> User:
    """Find the account of a mail and a password.

    Raises Forbidden (password_auth_disabled, account_disabled), TooManyAttempts (account_locked),
    Unauthenticated (invalid_credentials).
    """
    if not conf.password_sign_in_enabled():
        raise Forbidden("sign-in by password is turned off", code="password_auth_disabled")
    email = normalized_email(email)
    _count_failure(email, ip)  # before the work: many at once cannot slip through
    user = find_user(email)
    # An unknown mail and an account without a password cost the same hash.
    encoded = user.password if user else UNUSABLE_PASSWORD_PREFIX
    if not check_password(password, encoded) or user is None:
        raise Unauthenticated(
            "the mail address or the password is wrong", code="invalid_credentials"
        )
    clear_attempts(_FAILURES, _failure_key(email, ip))
    if not user.is_active:
        raise Forbidden("the account is disabled", code="account_disabled")
    return user


def _count_failure(email: str, ip: str) -> None:
    wait_s = count_attempt(
        _FAILURES, _failure_key(email, ip), limit=_MAX_FAILURES, window=_FAILURE_WINDOW
    )
    if wait_s:
        raise TooManyAttempts(
            "too many failed sign-ins; try again later", code="account_locked", retry_after_s=wait_s
        )


def _failure_key(email: str, ip: str) -> str:
    return f"{email}\0{ip}"
