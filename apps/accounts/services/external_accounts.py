"""Accounts of people who sign in at another provider: known, linked by a proven address, or new.

(reference: control-plane 3)
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode
from uuid import UUID

from django.contrib.auth.hashers import make_password
from django.db import IntegrityError
from django.http import HttpRequest
from django.urls import reverse

from apps.accounts import conf
from apps.accounts.domain.account_rules import workspace_name, workspace_slug
from apps.accounts.domain.errors import EmailTaken, ExternalSignInRefused
from apps.accounts.domain.external_identity import ExternalIdentity
from apps.accounts.domain.tokens import hash_token, new_opaque_token
from apps.accounts.models import ExchangeCode, ExternalAccount, Invitation, User
from apps.accounts.selectors import clear_cached, find_user, is_sign_up_open
from apps.accounts.services.rate_limits import OIDC, limit_by_ip
from apps.accounts.services.sign_in import start_session
from apps.accounts.services.sign_up import create_account, create_invited_account
from apps.accounts.services.token_pairs import TokenPair, issue_tokens, revoke_everything
from apps.streams.api import unit_of_work
from kernel.clock import now

_TRIES: Final = 3  # two first sign-ins at once: the slower one finds what the faster one made


def external_sign_in(identity: ExternalIdentity) -> User:
    """Return the active account of this identity; link or make one at the first sign-in.

    An account of the same address is linked only if the provider has verified the address; if
    nobody had proven the address before, its password, tokens and sessions end. Raise
    ExternalSignInRefused (oidc_email_missing, oidc_email_unverified, sign_up_disabled,
    account_disabled).
    """
    account = _account_of(identity)
    if not account.user.is_active:
        raise ExternalSignInRefused("the account is disabled", code="account_disabled")
    _apply_groups(account, identity)
    clear_cached(account.user_id)
    return User.objects.select_related("workspace").get(pk=account.user_id)


def complete_sign_in(
    request: HttpRequest, identity: ExternalIdentity, *, return_url: str, front_end: str
) -> str:
    """Sign the identity in, and return where the browser goes.

    Without a `front_end`, start a session here and return `return_url`; else that page, with a
    one-time code behind the `#`. Raise what `external_sign_in` raises.
    """
    user = external_sign_in(identity)
    if not front_end:
        start_session(request, user)
        return return_url
    code = issue_exchange_code(user, identity)
    return f"{front_end}#{urlencode({'code': code, 'return_url': return_url})}"


def failed_sign_in_url(code: str, front_end: str = "") -> str:
    """Return the page that is told why nobody was signed in, by a code behind the `#`."""
    return f"{front_end or reverse('console:sign-in-callback')}#{urlencode({'error': code})}"


def limit_external_sign_in(request: HttpRequest) -> None:
    """Count a step of a sign-in elsewhere by this client; raise TooManyAttempts."""
    limit_by_ip(request, OIDC)


def issue_exchange_code(user: User, identity: ExternalIdentity) -> str:
    """Return a one-time code for the tokens of this sign-in, which no URL may hold."""
    code = new_opaque_token()
    ExchangeCode.objects.create(
        user=user,
        provider=identity.provider,
        groups=list(identity.groups),
        code_hash=hash_token(code),
        expires_at=now() + conf.EXCHANGE_CODE_LIFE,
    )
    return code


def redeem_exchange_code(code: str) -> TokenPair | None:
    """Return the tokens, once; None for a code that is unknown, used or expired."""
    rows = ExchangeCode.objects.select_related("user__workspace")
    row = rows.filter(code_hash=hash_token(code), expires_at__gt=now()).first()
    if row is None or not ExchangeCode.objects.filter(pk=row.pk).delete()[0]:
        return None
    if not row.user.is_active:
        return None
    return issue_tokens(row.user, provider=row.provider, groups=row.groups)


def _account_of(identity: ExternalIdentity) -> ExternalAccount:
    for again in reversed(range(_TRIES)):
        known = ExternalAccount.objects.select_related("user").filter(
            provider=identity.provider, subject=identity.subject
        )
        if (account := known.first()) is not None:
            known.update(last_used_at=now())
            return account
        try:
            return _first_sign_in(identity)
        except (IntegrityError, EmailTaken):
            if not again:
                raise
    raise AssertionError("the last try returns or raises")


def _first_sign_in(identity: ExternalIdentity) -> ExternalAccount:
    if not identity.email:
        raise ExternalSignInRefused(
            "the provider did not name an email address", code="oidc_email_missing"
        )
    if not identity.email_verified:
        raise ExternalSignInRefused(
            "the provider has not verified the email address", code="oidc_email_unverified"
        )
    user = find_user(identity.email)
    if user is None:
        return _new_account(identity)
    account, was_proven = _link(user.pk, identity)
    if not was_proven:
        clear_cached(user.pk)
    return account


@unit_of_work
def _link(user_id: UUID, identity: ExternalIdentity) -> tuple[ExternalAccount, bool]:
    """Link the account; what others may have set up under an unproven address ends."""
    user = User.objects.get(pk=user_id)
    account = _store(user, identity)
    was_proven = user.email_verified_at is not None
    if not was_proven:
        user.password = make_password(None)
        revoke_everything(user_id)
    user.email_verified_at = user.email_verified_at or now()
    user.save(update_fields=["password", "email_verified_at"])
    return account, was_proven


def _new_account(identity: ExternalIdentity) -> ExternalAccount:
    """Make an account: with a workspace, or as the member that an open invitation makes."""
    invited = _invitation_to(identity.email)
    if invited is None and not is_sign_up_open():
        raise ExternalSignInRefused(
            "sign-up is closed here; ask for an invitation to a workspace", code="sign_up_disabled"
        )
    user = User(
        email=identity.email,
        full_name=identity.full_name,
        password=make_password(None),
        email_verified_at=now(),
    )
    # The account stands by itself: without its link, the next sign-in links it by its address.
    if invited is not None:
        create_invited_account(user, invited)
    else:
        name = identity.full_name
        create_account(user, workspace_name(name), workspace_slug(name))
    return _store(user, identity)


def _store(user: User, identity: ExternalIdentity) -> ExternalAccount:
    return ExternalAccount.objects.create(
        user=user, provider=identity.provider, subject=identity.subject
    )


def _invitation_to(email: str) -> Invitation | None:
    open_ones = Invitation.objects.select_related("workspace").filter(
        email=email, expires_at__gt=now(), invited_by__is_active=True
    )
    return open_ones.order_by("-created_at").first()


@unit_of_work
def _apply_groups(account: ExternalAccount, identity: ExternalIdentity) -> None:
    """Make an administrator by groups, or end what groups made; others stay what they are."""
    if identity.is_admin is None:
        return
    made_here = User.objects.filter(pk=account.user_id, is_admin=not identity.is_admin)
    if identity.is_admin and made_here.update(is_admin=True):
        ExternalAccount.objects.filter(pk=account.pk).update(grants_admin=True)
    if not identity.is_admin and account.grants_admin:
        made_here.update(is_admin=False)
        ExternalAccount.objects.filter(pk=account.pk).update(grants_admin=False)
