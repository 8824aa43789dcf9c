"""Sign-in by password, for API clients and for browsers with a session cookie."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.contrib.auth import login
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX, check_password
from django.core import signing
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare

from apps.accounts import conf
from apps.accounts.domain.account_rules import normalized_email
from apps.accounts.domain.errors import Forbidden, Unauthenticated
from apps.accounts.models import User
from apps.accounts.selectors import find_user
from apps.accounts.services.authentication import principal_of, record_actor
from apps.accounts.services.password_attempts import begin_attempt
from apps.accounts.services.rate_limits import SIGN_IN, SIGN_UP, limit_by_ip
from apps.accounts.services.second_factor import check_second_factor, second_factor_of
from apps.accounts.services.sign_up import sign_up
from apps.accounts.sessions import SIGNED_IN_FROM
from apps.http.api import client_ip

_HALF_SALT: Final = "partita.second-factor"
_HALF_LIFE: Final = timedelta(minutes=5)
_MAX_AGENT: Final = 300


def sign_in(*, email: str, password: str, ip: str, code: str = "") -> User:
    """Return the account with this email address and password; `code`: of its second factor.

    Raise what `verify_password` and `check_second_factor` raise.
    """
    user = verify_password(email=email, password=password, ip=ip)
    check_second_factor(user, code)
    return user


def verify_password(*, email: str, password: str, ip: str) -> User:
    """Return the account with this email address and password, which may need a second factor.

    Raise Forbidden (password_auth_disabled, account_disabled), TooManyAttempts (account_locked),
    Unauthenticated (invalid_credentials).
    """
    if not conf.password_sign_in_enabled():
        raise Forbidden("sign-in by password is turned off", code="password_auth_disabled")
    email = normalized_email(email)
    # Counted before the password is checked, so that concurrent attempts cannot exceed the limits.
    attempt = begin_attempt(email=email, ip=ip)
    user = find_user(email)
    # An unknown address and an account without a password cost the same hash.
    encoded = user.password if user else UNUSABLE_PASSWORD_PREFIX
    if not check_password(password, encoded) or user is None:
        raise Unauthenticated(
            "the email address or the password is wrong", code="invalid_credentials"
        )
    attempt.record_success()
    if not user.is_active:
        raise Forbidden("the account is disabled", code="account_disabled")
    return user


def sign_in_session(request: HttpRequest, email: str, password: str) -> str:
    """Check the password within the rate limit, and start a session unless a code is needed.

    Return "", or what `finish_sign_in_session` needs with that code. Raise what
    `verify_password` raises.
    """
    limit_by_ip(request, SIGN_IN)
    user = verify_password(email=email, password=password, ip=client_ip(request))
    if second_factor_of(user.pk).is_on:
        half = {"user": str(user.pk), "password": user.get_session_auth_hash()}
        return signing.dumps(half, salt=_HALF_SALT)
    start_session(request, user)
    return ""


def finish_sign_in_session(request: HttpRequest, half: str, code: str) -> None:
    """Start the session of a sign-in whose password was right, within five minutes.

    Raise Unauthenticated (unauthenticated: begin again; second_factor_invalid), TooManyAttempts.
    """
    limit_by_ip(request, SIGN_IN)
    try:
        known = signing.loads(half, salt=_HALF_SALT, max_age=_HALF_LIFE)
    except signing.BadSignature:  # also an expired one
        raise _begin_again() from None
    user = User.objects.active().filter(pk=known["user"]).first()
    if user is None or not constant_time_compare(known["password"], user.get_session_auth_hash()):
        raise _begin_again()
    check_second_factor(user, code)
    start_session(request, user)


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
    agent = request.headers.get("User-Agent", "")[:_MAX_AGENT]
    request.session[SIGNED_IN_FROM] = {"address": client_ip(request), "agent": agent}
    login(request, user)  # also sets `request.user` and the time of the last sign-in
    record_actor(user.id, user.workspace_id, is_admin=user.is_admin)


def _begin_again() -> Unauthenticated:
    return Unauthenticated("that took too long; please sign in again")


def sign_out_session(request: HttpRequest) -> None:
    """Delete the session from the store; the response deletes the cookie."""
    principal_of(request)  # records the actor for the audit
    request.session.flush()
