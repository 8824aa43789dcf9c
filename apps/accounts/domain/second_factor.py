"""Time-based one-time passwords (RFC 6238, by pyotp) and recovery codes."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from datetime import datetime
from typing import TYPE_CHECKING, Final
from uuid import UUID

if TYPE_CHECKING:
    import pyotp

STEP_S: Final = 30
RECOVERY_CODES: Final = 10
_ISSUER: Final = "Partita"
_LETTERS: Final = "abcdefghjkmnpqrstuvwxyz23456789"  # none that look alike
_LENGTH: Final = 12  # 59 bits


def new_secret() -> str:
    """Return 160 random bits, as authenticator apps take them."""
    return base64.b32encode(secrets.token_bytes(20)).decode()


def provisioning_uri(secret: str, email: str) -> str:
    """Return the `otpauth:` address, which a QR code shows to an app."""
    return _totp(secret).provisioning_uri(name=email, issuer_name=_ISSUER)


def matching_step(secret: str, code: str, moment: datetime) -> int | None:
    """Return the time step that the code belongs to, at most one away from `moment`, or None."""
    password = _totp(secret)
    step = int(moment.timestamp()) // STEP_S
    for each in (step, step - 1, step + 1):
        if hmac.compare_digest(password.generate_otp(each), code):
            return each
    return None


def is_time_based(code: str) -> bool:
    """Return whether this looks like a code of an app: six ASCII digits."""
    return len(code) == 6 and code.isascii() and code.isdigit()  # noqa: PLR2004


def normalized_code(code: str) -> str:
    """Return the code without what people type between its parts."""
    return "".join(code.split()).replace("-", "").lower()


def new_recovery_codes() -> list[str]:
    return [_recovery_code() for _ in range(RECOVERY_CODES)]


def hash_recovery_code(user_id: UUID, code: str) -> str:
    """Return the SHA-256 of a code of this user, which is random enough for a fast hash."""
    return hashlib.sha256(f"{user_id}\0{normalized_code(code)}".encode()).hexdigest()


def _totp(secret: str) -> pyotp.TOTP:
    import pyotp  # 20 ms that no command shall pay for

    return pyotp.TOTP(secret, interval=STEP_S)


def _recovery_code() -> str:
    letters = "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
    return "-".join((letters[:4], letters[4:8], letters[8:]))
