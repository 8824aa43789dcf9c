"""Limits on tried passwords: the lock of one client, and the growing delay of one account.

Ten failures lock an account for the client that made them. Failures from elsewhere count together
and make the account slow, never closed: a stranger cannot keep its owner out for long, and least
from where the owner has signed in before.
(decision: 0045)
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from apps.accounts.domain.errors import TooManyAttempts
from apps.accounts.services.rate_limits import (
    GrowingDelay,
    clear_attempts,
    count_attempt,
    delay_attempt,
    has_attempt,
    keep_attempt,
    withdraw_attempt,
)

_OF_CLIENT: Final = "auth.failures"
_MAX_FAILURES: Final = 10
_FAILURE_WINDOW: Final = timedelta(minutes=10)
_OF_ACCOUNT: Final = "auth.account-failures"
_DELAY: Final = GrowingDelay(free=10, window=timedelta(hours=1), longest=timedelta(minutes=5))
_KNOWN: Final = "auth.known-clients"
_KNOWN_FOR: Final = timedelta(days=90)
_RENEWED_AFTER: Final = timedelta(days=1)
_NETWORK_BITS: Final = 64  # of an IPv6 address: hosts change the rest


@dataclass(frozen=True, slots=True)
class PasswordAttempt:
    """An attempt that counts as a failure until `record_success`."""

    email: str
    ip: str
    counted: UUID | None  # by account; None: from a client that the account has signed in from

    def record_success(self) -> None:
        """Forget the failures of this client, and know it from now on.

        Failures from elsewhere stay: to sign in would otherwise give a stranger more attempts.
        """
        clear_attempts(_OF_CLIENT, f"{self.email}\0{self.ip}")
        if self.counted is not None:
            withdraw_attempt(self.counted)
        key = f"{self.email}\0{network_of(self.ip)}"
        if not has_attempt(_KNOWN, key, beyond=_KNOWN_FOR - _RENEWED_AFTER):
            keep_attempt(_KNOWN, key, window=_KNOWN_FOR)


def begin_attempt(*, email: str, ip: str) -> PasswordAttempt:
    """Count an attempt before its password is checked; raise TooManyAttempts (account_locked).

    Whether the account exists makes no difference.
    """
    counted = None
    if not has_attempt(_KNOWN, f"{email}\0{network_of(ip)}"):
        counted, wait_s = delay_attempt(_OF_ACCOUNT, email, _DELAY)
        if wait_s:
            raise _lock_error(wait_s)
    wait_s = count_attempt(
        _OF_CLIENT, f"{email}\0{ip}", limit=_MAX_FAILURES, window=_FAILURE_WINDOW
    )
    if wait_s:
        if counted is not None:
            withdraw_attempt(counted)
        raise _lock_error(wait_s)
    return PasswordAttempt(email, ip, counted)


def forget_failures(email: str) -> None:
    """End the delay of an account, whose owner has proven the address."""
    clear_attempts(_OF_ACCOUNT, email)


def network_of(ip: str) -> str:
    """Return the part of an address that a client keeps: an IPv6 host has many within its /64."""
    try:
        address = ipaddress.ip_address(ip)
    except ValueError:  # a command has none
        return ip
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, _NETWORK_BITS), strict=False))
    return str(address)


def _lock_error(wait_s: int) -> TooManyAttempts:
    return TooManyAttempts("too many failed sign-ins", code="account_locked", retry_after_s=wait_s)
