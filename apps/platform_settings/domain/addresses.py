"""Addresses in the settings: what one may be, where it leads, and what of it may be shown.

A secret belongs to the address beside it. Whoever may change the address but does not know the
secret must not have it sent elsewhere, so `origin_of` decides whether an address is still the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final
from urllib.parse import SplitResult, urlsplit

HTTP: Final = ("http", "https")
ENGINE: Final = ("tcp", "http", "https", "unix", "ssh")  # of Docker engines
HIDDEN_USER: Final = "********@"
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}
_AUTHORITY: Final = re.compile(r"^((?:[A-Za-z][A-Za-z0-9+.-]*:)?//)?[^/?#]*@")
HOST: Final = re.compile(r"[\w.:-]+")
_WITHOUT_HOST: Final = ("unix",)


def broken_address_rule(text: str, schemes: Collection[str] = HTTP) -> str:
    """Return why the text is not an address of one of these schemes, or ""."""
    if has_user(text):
        return "must not hold a user name or password; use username and secret"
    if not text.isprintable() or " " in text or "\\" in text:
        return "must not hold spaces, backslashes or control characters"
    parts = _split(text)
    has_host = parts is not None and (
        parts.scheme in _WITHOUT_HOST or HOST.fullmatch(parts.hostname or "")
    )
    if parts is None or parts.scheme not in schemes or not has_host:
        begins = " or ".join(f"{each}://" for each in schemes)
        wanted = "an http or https address" if tuple(schemes) == HTTP else f"a URL: {begins}"
        return f"must be {wanted}"
    if "?" in text or "#" in text or {".", ".."} & set(parts.path.split("/")):
        return 'must not have a query, a fragment, or "." or ".." in its path'
    return ""


def has_user(text: str) -> bool:
    """Return whether the address holds a user or a password; `ssh://user@host` may name its user.

    Also true for texts that are no valid address otherwise.
    """
    found = _AUTHORITY.match(text)
    if found is None:
        return False
    user = found[0].removeprefix(found[1] or "").removesuffix("@")
    return ":" in user or found[1] != "ssh://"


def hide_user(text: str) -> str:
    """Return the address with a mask in place of the user and password that it may hold."""
    if not has_user(text):
        return text
    return _AUTHORITY.sub(lambda found: f"{found[1] or ''}{HIDDEN_USER}", text, count=1)


def without_user(text: str) -> str:
    """Return the address without user and password."""
    return _AUTHORITY.sub(lambda found: found[1] or "", text, count=1)


def origin_of(text: str) -> tuple[str, ...]:
    """Return scheme, host and port, equal for two spellings of one place; without scheme: https.

    What is no address, such as `${PARTITA_CONFIG_X}`, stands for itself.
    """
    parts = _split(text if "://" in text else f"https://{text}")
    if parts is None or not parts.hostname:
        return (text,)
    port = parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
    return parts.scheme, parts.hostname.rstrip("."), str(port)


def _split(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        is_valid = parts.port != 0
    except ValueError:
        return None
    return parts if is_valid else None
