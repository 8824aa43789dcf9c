"""Sign-in of a program that has no browser, by a code that a person confirms on a page (RFC 8628).

The program asks for two codes, shows one of them to the person and waits with the other. Who is
signed in types the shown one on the page and approves; then the program fetches an API token.
(reference: control-plane 3; decision: 0095)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from django.http import HttpRequest
from django.urls import reverse

from apps.accounts import conf
from apps.accounts.domain.api_tokens import TokenScope
from apps.accounts.domain.device_codes import (
    DeviceDecision,
    client_words,
    new_user_code,
    pending_refusal,
    read_user_code,
    scopes_of,
    shown_user_code,
)
from apps.accounts.domain.errors import (
    DeviceCodeRefused,
    Forbidden,
    TooManyAttempts,
    Unauthenticated,
)
from apps.accounts.domain.principal import Principal
from apps.accounts.domain.tokens import hash_token, new_opaque_token
from apps.accounts.models import DeviceAuthorization
from apps.accounts.selectors import active_account, is_credential_alive
from apps.accounts.services.api_tokens import NewApiToken, issue_api_token, require_room_for_token
from apps.accounts.services.authentication import record_actor
from apps.accounts.services.password_attempts import network_of
from apps.accounts.services.rate_limits import count_attempt
from apps.http.api import client_ip, public_url
from apps.streams.api import unit_of_work
from kernel.clock import now
from kernel.errors import NotFound

_REQUESTS: Final = "auth.device-requests"
_MAX_REQUESTS: Final = 30  # of one network, within the life of a code
_CODES: Final = "auth.device-codes"
_MAX_CODES: Final = 30  # that one person opens or decides within _CODES_WINDOW, right or wrong
_MAX_CODES_OF_NETWORK: Final = 200
_CODES_WINDOW: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDeviceAuthorization:
    """`device_code` is told to the program alone; the store holds its hash."""

    row: DeviceAuthorization
    device_code: str = field(repr=False)

    @property
    def user_code(self) -> str:
        return shown_user_code(self.row.user_code)

    @property
    def verification_uri(self) -> str:
        return public_url() + reverse("console:device")

    @property
    def verification_uri_complete(self) -> str:
        return f"{self.verification_uri}?code={self.user_code}"


def begin_device_authorization(*, client: str, address: str) -> NewDeviceAuthorization:
    """Store the request of a program that calls itself `client`, for ten minutes.

    Raise InvalidInput, TooManyAttempts.
    """
    client = client_words(client)
    wait_s = count_attempt(
        _REQUESTS, network_of(address), limit=_MAX_REQUESTS, window=conf.DEVICE_CODE_LIFE
    )
    if wait_s:
        raise TooManyAttempts("too many sign-ins began at this address", retry_after_s=wait_s)
    return _begin(client, address)


@unit_of_work
def _begin(client: str, address: str) -> NewDeviceAuthorization:
    device_code, moment = new_opaque_token(), now()
    row = DeviceAuthorization.objects.create(
        device_code_hash=hash_token(device_code),
        user_code=new_user_code(),  # one that is taken makes the unit of work begin again
        client=client,
        address=address,
        decision=DeviceDecision.PENDING,
        created_at=moment,
        expires_at=moment + conf.DEVICE_CODE_LIFE,
    )
    return NewDeviceAuthorization(row=row, device_code=device_code)


def find_device_authorization(
    request: HttpRequest, principal: Principal, code: str
) -> DeviceAuthorization:
    """Return the request that waits for this code; raise InvalidInput, NotFound, TooManyAttempts.

    Each call counts: nobody finds a code of others by trying.
    """
    user_code = read_user_code(code)
    limits = {principal.key: _MAX_CODES, network_of(client_ip(request)): _MAX_CODES_OF_NETWORK}
    for key, limit in limits.items():
        if wait_s := count_attempt(_CODES, key, limit=limit, window=_CODES_WINDOW):
            raise TooManyAttempts("too many codes were tried", retry_after_s=wait_s)
    rows = DeviceAuthorization.objects.alive().filter(decision=DeviceDecision.PENDING)
    row = rows.filter(user_code=user_code).first()
    if row is None:
        raise _unknown_code()
    return row


def approve_device(
    request: HttpRequest, principal: Principal, code: str, *, scope: TokenScope, days: int
) -> DeviceAuthorization:
    """Let the program that shows `code` fetch a token of the caller, which ends after `days`.

    Raise Forbidden (role_required) for a scope beyond the caller's role, InvalidInput for one
    token too many, and what `find_device_authorization` raises, also of two decisions at once.
    """
    row = find_device_authorization(request, principal, code)
    _approve(principal, row, scope, days)
    return row


@unit_of_work
def _approve(principal: Principal, row: DeviceAuthorization, scope: TokenScope, days: int) -> None:
    principal.require_session()
    if not is_credential_alive(principal.token_jti, principal.session_hash):
        raise Unauthenticated("the credential was revoked", code="token_revoked")
    if scope not in scopes_of(principal):
        raise Forbidden(
            f"you are a {principal.role} of this workspace; a token cannot have the scope {scope}",
            code="role_required",
        )
    require_room_for_token(principal.user_id)
    _decide(
        row,
        decision=DeviceDecision.APPROVED,
        user_id=principal.user_id,
        token_jti=principal.token_jti,
        session_hash=principal.session_hash,
        scope=scope,
        days=days,
    )


def deny_device(request: HttpRequest, principal: Principal, code: str) -> DeviceAuthorization:
    """Refuse the program that shows `code`; raise what `find_device_authorization` raises."""
    principal.require_session()
    row = find_device_authorization(request, principal, code)
    _decide(row, decision=DeviceDecision.DENIED)
    return row


def _decide(row: DeviceAuthorization, **facts: object) -> None:
    """Write a decision, unless another one was first or the time is over; then raise NotFound."""
    waiting = DeviceAuthorization.objects.alive().filter(decision=DeviceDecision.PENDING)
    if not waiting.filter(pk=row.pk).update(**facts):
        raise _unknown_code()


def redeem_device_code(device_code: str) -> NewApiToken:
    """Return the token of an approved request, once; raise DeviceCodeRefused, InvalidInput.

    The credential of who approved must live until then, as must the account.
    """
    made = _redeem(hash_token(device_code))
    if isinstance(made, DeviceCodeRefused):
        raise made
    user = made.row.user
    record_actor(user.id, user.workspace_id, is_admin=user.is_admin)
    return made


@unit_of_work
def _redeem(device_code_hash: str) -> NewApiToken | DeviceCodeRefused:
    """Return a refusal instead of raising it: what it writes must be committed."""
    rows = DeviceAuthorization.objects.filter(device_code_hash=device_code_hash)
    row = rows.filter(expires_at__gt=now()).first()
    if row is None:
        return _expired_token()
    if row.decision != DeviceDecision.APPROVED or row.user_id is None:
        return _refuse_poll(row)
    if not rows.delete()[0]:  # decides between two concurrent calls
        return _expired_token()
    is_active = active_account(row.user_id, fresh=True) is not None
    if not is_active or not is_credential_alive(row.token_jti, row.session_hash):
        return DeviceCodeRefused(
            "the person who approved it has signed out or was disabled; sign in again",
            code="access_denied",
        )
    return issue_api_token(row.user_id, name=row.client, scope=TokenScope(row.scope), days=row.days)


def _refuse_poll(row: DeviceAuthorization) -> DeviceCodeRefused:
    """Say that it is denied or still pending, and note when it was asked for."""
    if row.decision == DeviceDecision.DENIED:
        return DeviceCodeRefused("the sign-in was denied on the page", code="access_denied")
    moment = now()
    refusal = pending_refusal(row.polled_at, row.interval_s, moment)
    DeviceAuthorization.objects.filter(pk=row.pk).update(
        polled_at=moment, interval_s=refusal.members["interval"]
    )
    return refusal


def _expired_token() -> DeviceCodeRefused:
    return DeviceCodeRefused("the code was used or has expired; sign in again")


def _unknown_code() -> NotFound:
    return NotFound(
        "this code is not valid: it was used, has expired or is misspelled; "
        "run the command again to get a new one"
    )
