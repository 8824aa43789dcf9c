"""Change of a password by its owner."""

from __future__ import annotations

from django.contrib.auth.hashers import make_password
from django.http import HttpRequest

from apps.accounts.domain.account_rules import password_errors
from apps.accounts.domain.errors import Unauthenticated, WeakPassword
from apps.accounts.domain.principal import Principal
from apps.accounts.models import User
from apps.accounts.selectors import clear_cached
from apps.accounts.services.rate_limits import SIGN_IN, limit_by_ip
from apps.accounts.services.sign_in import start_session, verify_password
from apps.accounts.services.token_pairs import revoke_everything
from apps.http.api import client_ip
from apps.streams.api import unit_of_work


def change_password_session(
    request: HttpRequest, principal: Principal, *, old: str, new: str
) -> None:
    """Set a new password, end every token and session, and start a new session here.

    A wrong old password counts as a failed sign-in. Raise what `verify_password` raises,
    WeakPassword.
    """
    limit_by_ip(request, SIGN_IN)
    try:
        user = verify_password(email=principal.email, password=old, ip=client_ip(request))
    except Unauthenticated:
        raise Unauthenticated("the current password is wrong", code="invalid_credentials") from None
    if errors := password_errors(new):
        raise WeakPassword(f"the password {errors[0].detail}", errors=errors)
    user.password = make_password(new)
    _store_password(user)
    clear_cached(user.id)
    start_session(request, user)


@unit_of_work
def _store_password(user: User) -> None:
    User.objects.filter(pk=user.pk).update(password=user.password)
    revoke_everything(user.pk)  # with it: the old credentials never outlive the password
