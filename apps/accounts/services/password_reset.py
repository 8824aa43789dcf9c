"""Reset of a forgotten password by a link that is mailed (reference: control-plane 3).

A request tells nobody whether an address has an account: it does the same work and answers the
same for any. A task of the background sends the mail, so that a slow mail server tells nothing.
"""

from __future__ import annotations

import logging
from typing import Final
from uuid import UUID

from django.contrib.auth.hashers import make_password
from django.http import HttpRequest
from django.template.loader import render_to_string

from apps.accounts import conf
from apps.accounts.domain.account_rules import normalized_email, password_errors
from apps.accounts.domain.errors import Forbidden, ResetTokenInvalid, WeakPassword
from apps.accounts.domain.tokens import hash_token, new_opaque_token
from apps.accounts.models import PasswordReset, User
from apps.accounts.selectors import clear_cached, find_user
from apps.accounts.services.password_attempts import forget_failures
from apps.accounts.services.rate_limits import RESET, count_attempt, limit_by_ip
from apps.accounts.services.token_pairs import revoke_everything
from apps.operations.api import (
    MailUnavailable,
    RecipientRefused,
    celery_application,
    mail_server,
    require_mail_server,
    send_mail,
)
from apps.streams.api import unit_of_work
from kernel.clock import now
from kernel.ids import new_uuid

MAIL_TASK: Final = "accounts.mail_reset_link"
_MAILS: Final = "auth.reset-mails"
_MAX_MAILS: Final = 3  # for an address, within the life of a link
_MAIL_EXPIRES_S: Final = 600  # who waits longer has asked again
_SUBJECT: Final = "Set a new password for Partita"
_log = logging.getLogger("partita.accounts")


def offers_reset() -> bool:
    """Return whether a password can be reset: passwords are used, and mail can be sent."""
    return conf.password_sign_in_enabled() and mail_server() is not None


def request_reset(email: str) -> None:
    """Have a link mailed to the account of this address, if there is one.

    Raise Forbidden (password_auth_disabled); MailUnavailable when no mail server is set up, or
    nothing runs background work.
    """
    if not conf.password_sign_in_enabled():
        raise Forbidden("sign-in by password is turned off", code="password_auth_disabled")
    require_mail_server()
    email = normalized_email(email)
    if count_attempt(_MAILS, email, limit=_MAX_MAILS, window=conf.RESET_LINK_LIFE):
        return  # enough are on their way; said to nobody, as all else
    user = find_user(email)
    user_id = user.id if user else new_uuid()  # the task finds nobody
    try:
        celery_application().send_task(
            MAIL_TASK,
            args=[str(user_id)],
            expires=_MAIL_EXPIRES_S,
            ignore_result=True,
            retry=False,
        )
    except Exception as error:  # noqa: BLE001 - the edge to whatever broker is configured
        _log.warning("A reset link cannot be mailed, the broker is unavailable: %s", error)
        raise MailUnavailable("mail cannot be sent now; try again later") from None


def request_reset_page(request: HttpRequest, email: str) -> None:
    """Do the same within the rate limit; raise TooManyAttempts, and what `request_reset` raises."""
    limit_by_ip(request, RESET)
    request_reset(email)


def reset_password_page(request: HttpRequest, token: str, password: str) -> None:
    """Set a password within the rate limit; raise TooManyAttempts, and see `reset_password`."""
    limit_by_ip(request, RESET)
    reset_password(token, password)


def mail_reset_link(user_id: UUID) -> None:
    """Mail a new link, which replaces an older one; raise MailUnavailable, for another try."""
    user = User.objects.active().filter(pk=user_id).first()
    if user is None:
        return
    context = {
        "name": user.full_name,
        "link": new_reset_link(user),
        "minutes": int(conf.RESET_LINK_LIFE.total_seconds() // 60),
        "site": conf.site_url(),
    }
    text = render_to_string("accounts/reset_password.txt", context)
    try:
        send_mail(user.email, subject=_SUBJECT, text=text)
    except RecipientRefused:
        _log.warning("The mail server refuses the address of account %s", user.id)


def new_reset_link(user: User) -> str:
    """Return a link that sets a password once, within RESET_LINK_LIFE; it replaces an older one."""
    return f"{conf.site_url()}/reset-password?token={_new_token(user)}"


def reset_password(token: str, password: str) -> None:
    """Set a new password by the link's token; every token and session of the user ends.

    Who has the link has proven the address. Raise WeakPassword, which leaves the link usable,
    ResetTokenInvalid.
    """
    if errors := password_errors(password):
        raise WeakPassword(f"the password {errors[0].detail}", errors=errors)
    user = _set_password(hash_token(token), make_password(password))
    clear_cached(user.pk)
    forget_failures(user.email)


@unit_of_work
def _new_token(user: User) -> str:
    token = new_opaque_token()
    PasswordReset.objects.update_or_create(
        user=user,
        defaults={"token_hash": hash_token(token), "expires_at": now() + conf.RESET_LINK_LIFE},
    )
    return token


@unit_of_work
def _set_password(token_hash: str, encoded: str) -> User:
    rows = PasswordReset.objects.select_related("user")
    row = rows.filter(token_hash=token_hash, expires_at__gt=now(), user__is_active=True).first()
    used = PasswordReset.objects.filter(pk=row.pk, token_hash=token_hash) if row else None
    if row is None or used is None or not used.delete()[0]:
        raise ResetTokenInvalid("the link was used or replaced, or has expired; ask for another")
    verified_at = row.user.email_verified_at or now()
    User.objects.filter(pk=row.user_id).update(password=encoded, email_verified_at=verified_at)
    revoke_everything(row.user_id)  # with it: the old credentials never outlive the password
    return row.user
