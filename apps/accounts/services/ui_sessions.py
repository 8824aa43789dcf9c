"""What the pages for people call: the same rules and limits as the JSON routes, but a cookie."""

from __future__ import annotations

from django.http import HttpRequest
from django.middleware.csrf import rotate_token

from apps.accounts.models import User
from apps.accounts.services.credentials import name_account, principal_of
from apps.accounts.services.limits import SIGN_IN, SIGN_UP, limit_by_ip
from apps.accounts.services.sign_in import sign_in
from apps.accounts.services.sign_up import sign_up
from apps.accounts.sessions import USER_ID
from apps.system.api import client_ip


def sign_in_session(request: HttpRequest, email: str, password: str) -> User:
    """`sign_in` within its limit, then set the session cookie. Raises what `sign_in` raises."""
    limit_by_ip(request, SIGN_IN)
    user = sign_in(email=email, password=password, ip=client_ip(request))
    start_session(request, user)
    return user


def sign_up_session(request: HttpRequest, full_name: str, email: str, password: str) -> User:
    """`sign_up` within its limit, then set the session cookie. Raises what `sign_up` raises."""
    limit_by_ip(request, SIGN_UP)
    user = sign_up(full_name=full_name, email=email, password=password)
    start_session(request, user)
    return user


def start_session(request: HttpRequest, user: User) -> None:
    """Begin a session under a new key, and a new CSRF token: nothing from before counts."""
    request.session.flush()
    request.session[USER_ID] = str(user.id)
    request.session.create()
    rotate_token(request)
    name_account(user.id, user.workspace_id, is_admin=user.is_admin)


def sign_out_session(request: HttpRequest) -> None:
    """Forget the session, here and in the store; the cookie goes with the answer."""
    principal_of(request)  # names for the audit who leaves
    request.session.flush()
