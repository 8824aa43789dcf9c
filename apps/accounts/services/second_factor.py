"""Second factors: an authenticator app (TOTP), and recovery codes for who has lost it.

They are asked for after the password. Who signs in at a provider has shown there who they are.
(reference: control-plane 3)
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final
from uuid import UUID

from apps.accounts import conf
from apps.accounts.domain.errors import TooManyAttempts, Unauthenticated
from apps.accounts.domain.principal import Principal
from apps.accounts.domain.second_factor import (
    hash_recovery_code,
    is_time_based,
    matching_step,
    new_recovery_codes,
    new_secret,
    normalized_code,
    provisioning_uri,
)
from apps.accounts.models import RecoveryCode, SecondFactor, User
from apps.accounts.services.rate_limits import clear_attempts, count_attempt
from apps.operations.api import EncryptedRow, EncryptedText
from apps.streams.api import unit_of_work
from kernel.clock import now
from kernel.encryption import Undecryptable, decrypt, encrypt
from kernel.errors import InvalidInput, NotFound

_FAILURES: Final = "auth.second-factor"
_MAX_FAILURES: Final = 10
_FAILURE_WINDOW: Final = timedelta(minutes=10)
_ROWS_AT_ONCE: Final = 500
_UNREADABLE: Final = (
    "codes of your app cannot be checked, because the key that encrypted its secret is missing; "
    "use a recovery code, or ask an administrator to list the key in "
    "SETTINGS_PREVIOUS_ENCRYPTION_KEYS or to remove your second factor"
)
_log = logging.getLogger("partita.accounts")


class SecondFactorUnreadable(Unauthenticated):
    """The secret was encrypted with a key that this installation does not have."""

    code = "second_factor_unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondFactorSetup:
    """What an app needs; shown until the first code confirms it. `qr_code`: an SVG element."""

    secret: str = field(repr=False)
    qr_code: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondFactorState:
    is_on: bool
    codes_left: int = 0


def second_factor_of(user_id: UUID) -> SecondFactorState:
    """Return whether sign-ins need a code, and how many recovery codes are left."""
    if not _find_confirmed(user_id):
        return SecondFactorState(is_on=False)
    left = RecoveryCode.objects.filter(user_id=user_id).count()
    return SecondFactorState(is_on=True, codes_left=left)


def begin_second_factor(principal: Principal) -> SecondFactorSetup:
    """Make a secret, which replaces one that was never confirmed.

    Raise Forbidden (session_required), InvalidInput when it is on already.
    """
    principal.require_session()
    if _find_confirmed(principal.user_id):
        raise InvalidInput("the second factor is on already")
    secret = new_secret()
    SecondFactor.objects.update_or_create(
        user_id=principal.user_id,
        defaults={"secret": encrypt(secret, conf.encryption_keys()), "last_step": 0},
    )
    return _setup(secret, principal.email)


def pending_second_factor(principal: Principal) -> SecondFactorSetup | None:
    """Return the setup that waits for its first code, or None."""
    row = SecondFactor.objects.filter(user_id=principal.user_id, confirmed_at=None).first()
    try:
        return _setup(_secret_of(row), principal.email) if row else None
    except SecondFactorUnreadable:
        return None  # to begin again makes another secret


def confirm_second_factor(principal: Principal, code: str) -> list[str]:
    """Turn it on by the app's first code; return the recovery codes, which are shown once.

    Raise Unauthenticated (second_factor_invalid), NotFound, TooManyAttempts, Forbidden.
    """
    principal.require_session()
    _count(principal.user_id)
    row = SecondFactor.objects.filter(user_id=principal.user_id, confirmed_at=None).first()
    if row is None:
        raise NotFound("no second factor waits to be confirmed")
    if not _use_time_based(row, normalized_code(code)):
        raise _invalid()
    clear_attempts(_FAILURES, str(principal.user_id))
    return _turn_on(row)


def replace_recovery_codes(principal: Principal, code: str) -> list[str]:
    """Return new recovery codes, by a valid code; the old ones end; raise as `remove`."""
    principal.require_session()
    _require_code(principal.user_id, code)
    return _replace_codes(principal.user_id)


def remove_second_factor(principal: Principal, code: str) -> None:
    """Turn it off, by a valid code; raise Unauthenticated, NotFound, TooManyAttempts, Forbidden."""
    principal.require_session()
    _require_code(principal.user_id, code)
    _remove(principal.user_id)


def remove_second_factor_of(user_id: UUID) -> None:
    """Turn it off for somebody who has lost app and codes; raise NotFound."""
    if not _remove(user_id):
        raise NotFound("the account has no second factor")


def check_second_factor(user: User, code: str) -> None:
    """Check the code of a sign-in, if the account needs one; each code works once.

    Raise Unauthenticated (second_factor_required, second_factor_invalid), TooManyAttempts.
    """
    if not _find_confirmed(user.pk):
        return
    if not code:
        raise Unauthenticated(
            "a code of the second factor is needed", code="second_factor_required"
        )
    _require_code(user.pk, code)


def _require_code(user_id: UUID, code: str) -> None:
    _count(user_id)
    row = _find_confirmed(user_id)
    if row is None:
        raise NotFound("the account has no second factor")
    normalized = normalized_code(code)
    is_valid = (
        _use_time_based(row, normalized)
        if is_time_based(normalized)
        else _use_recovery_code(user_id, normalized)
    )
    if not is_valid:
        raise _invalid()
    clear_attempts(_FAILURES, str(user_id))


def _count(user_id: UUID) -> None:
    """Count before the code is checked, so that concurrent attempts cannot exceed the limit."""
    wait_s = count_attempt(_FAILURES, str(user_id), limit=_MAX_FAILURES, window=_FAILURE_WINDOW)
    if wait_s:
        raise TooManyAttempts("too many wrong codes", code="account_locked", retry_after_s=wait_s)


def _use_time_based(row: SecondFactor, code: str) -> bool:
    step = matching_step(_secret_of(row), code, now()) if is_time_based(code) else None
    if step is None:
        return False
    this = SecondFactor.objects.filter(pk=row.pk)
    if this.filter(secret=row.secret, last_step__lt=step).update(last_step=step):
        return True
    again = this.exclude(secret=row.secret).first()  # encrypted with another key meanwhile
    return again is not None and _use_time_based(again, code)


def _use_recovery_code(user_id: UUID, code: str) -> bool:
    rows = RecoveryCode.objects.filter(code_hash=hash_recovery_code(user_id, code))
    return bool(rows.delete()[0])


def _find_confirmed(user_id: UUID) -> SecondFactor | None:
    return SecondFactor.objects.filter(user_id=user_id, confirmed_at__isnull=False).first()


def _secret_of(row: SecondFactor) -> str:
    try:
        return decrypt(row.secret, conf.encryption_keys())
    except Undecryptable:
        _log.error("The second factor of user %s: no known key has encrypted it", row.user_id)
        raise SecondFactorUnreadable(_UNREADABLE) from None


def _setup(secret: str, email: str) -> SecondFactorSetup:
    import segno  # 20 ms that no command shall pay for

    picture = segno.make(provisioning_uri(secret, email), error="m")
    return SecondFactorSetup(secret=secret, qr_code=picture.svg_inline(scale=4, light="#fff"))


@unit_of_work
def _turn_on(row: SecondFactor) -> list[str]:
    SecondFactor.objects.filter(pk=row.pk).update(confirmed_at=now())
    return _store_codes(row.user_id)


@unit_of_work
def _replace_codes(user_id: UUID) -> list[str]:
    return _store_codes(user_id)


def _store_codes(user_id: UUID) -> list[str]:
    RecoveryCode.objects.filter(user_id=user_id).delete()
    codes = new_recovery_codes()
    RecoveryCode.objects.bulk_create(
        RecoveryCode(user_id=user_id, code_hash=hash_recovery_code(user_id, code)) for code in codes
    )
    return codes


@unit_of_work
def _remove(user_id: UUID) -> bool:
    RecoveryCode.objects.filter(user_id=user_id).delete()
    return bool(SecondFactor.objects.filter(user_id=user_id).delete()[0])


def _invalid() -> Unauthenticated:
    return Unauthenticated("the code is wrong, or was used before", code="second_factor_invalid")


class EncryptedSecrets:
    """The secrets of apps, as encrypted rows."""

    def rows(self) -> Iterator[EncryptedRow]:
        rows = SecondFactor.objects.select_related("user").order_by("pk")
        page = list(rows[:_ROWS_AT_ONCE])
        while page:
            for row in page:
                text = EncryptedText(f"second factor of {row.user.email}", row.secret)
                yield EncryptedRow(str(row.pk), (text,))
            page = list(rows.filter(pk__gt=page[-1].pk)[:_ROWS_AT_ONCE])

    def replace(self, row_id: str, texts: Mapping[str, str]) -> bool:
        (old, new), *_ = texts.items()
        return bool(SecondFactor.objects.filter(pk=row_id, secret=old).update(secret=new))


ROWS: Final = EncryptedSecrets()
