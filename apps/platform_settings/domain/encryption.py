"""Secrets of a settings document at rest."""

from __future__ import annotations

from collections.abc import Sequence

from apps.platform_settings.domain.fields import VARIABLE, SettingsContext
from apps.platform_settings.domain.keys import ENCRYPTED
from apps.platform_settings.domain.wire import Wire, map_secrets, secret_texts
from kernel.encryption import Undecryptable, decrypt, encrypt, fitting_key


def encrypt_secrets(wire: Wire, stored: Wire, context: SettingsContext) -> Wire:
    """Return a copy whose secrets are encrypted.

    A secret that is the same in `stored` keeps its ciphertext. What names a variable stays as it
    is, and so does what is encrypted already.
    """
    known = {
        _reveal_text(secret.text, context): secret.text
        for secret in secret_texts(stored)
        if secret.text.startswith(ENCRYPTED)
    }

    def seal(text: str) -> str:
        if text.startswith(ENCRYPTED) or VARIABLE.fullmatch(text):
            return text
        return known.get(text) or ENCRYPTED + encrypt(text, context.keys)

    return map_secrets(wire, seal)


def unreadable_secrets(wire: Wire, keys: Sequence[str]) -> frozenset[str]:
    """Return the JSON pointers of the encrypted secrets that no key decrypts."""
    found = (secret for secret in secret_texts(wire) if secret.text.startswith(ENCRYPTED))
    return frozenset(
        secret.pointer
        for secret in found
        if fitting_key(secret.text.removeprefix(ENCRYPTED), keys) is None
    )


def meaning(wire: Wire, context: SettingsContext) -> Wire:
    """Return a copy with secrets in the clear, to compare documents with."""
    return map_secrets(wire, lambda text: _reveal_text(text, context))


def _reveal_text(text: str, context: SettingsContext) -> str:
    """Return what a secret text means here; empty when it cannot be decrypted or is not set."""
    if named := VARIABLE.fullmatch(text):
        return context.variables.get(named[1], "").strip()
    if not text.startswith(ENCRYPTED):
        return text
    try:
        return decrypt(text.removeprefix(ENCRYPTED), context.keys)
    except Undecryptable:
        return ""
