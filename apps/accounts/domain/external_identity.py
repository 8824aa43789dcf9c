"""Who somebody is by the word of a sign-in provider, and where the browser goes afterwards.

(reference: control-plane 3)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from apps.accounts.domain.account_rules import MAX_FULL_NAME, is_email, normalized_email

MAX_SUBJECT: Final = 255  # OpenID Connect Core, 2
_MAX_GROUPS: Final = 200
_MAX_GROUP: Final = 200
_MAX_RETURN_URL: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalIdentity:
    """An identity that a provider vouches for. `email` is normalized, empty when it has none.

    `is_admin`: whether its groups make an administrator; None where the provider has no say.
    """

    provider: str
    subject: str
    email: str
    email_verified: bool
    full_name: str
    groups: tuple[str, ...] = ()
    is_admin: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimNames:
    """Which claims hold what, and the groups (lower case) whose members are administrators."""

    email: str
    name: str
    groups: str
    admin_groups: frozenset[str]


def identity_of(provider: str, claims: Mapping[str, Any], names: ClaimNames) -> ExternalIdentity:
    """Read the claims of an OpenID provider; anything of a wrong type counts as absent.

    `wrong_types` names what was there and did not count.
    """
    email = _text(claims.get(names.email))
    groups = _groups(claims.get(names.groups))
    normalized = normalized_email(email)
    return ExternalIdentity(
        provider=provider,
        subject=_text(claims.get("sub"))[:MAX_SUBJECT],
        email=normalized if is_email(normalized) else "",
        email_verified=claims.get("email_verified") is True,
        full_name=_name(claims.get(names.name), email),
        groups=groups,
        is_admin=any(group.lower() in names.admin_groups for group in groups),
    )


def wrong_types(claims: Mapping[str, Any], names: ClaimNames) -> tuple[str, ...]:
    """Return what an administrator should hear about claims of a wrong type."""
    verified, groups = claims.get("email_verified"), claims.get(names.groups)
    found = []
    if verified is not None and not isinstance(verified, bool):
        found.append("email_verified is not a boolean, and counts as false")
    if groups is not None and not isinstance(groups, list):
        found.append(f"{names.groups} is not a list, and counts as empty")
    return tuple(found)


def external_identity(
    provider: str, *, subject: str, email: str, email_verified: bool, full_name: str
) -> ExternalIdentity:
    """Return the identity, within the bounds of the store; what is not an address is left out."""
    normalized = normalized_email(email)
    return ExternalIdentity(
        provider=provider,
        subject=subject[:MAX_SUBJECT],
        email=normalized if is_email(normalized) else "",
        email_verified=email_verified,
        full_name=_name(full_name, email),
    )


def safe_return_url(url: str, origins: Iterable[str]) -> str:
    """Return `url` if it is a path of this site or has one of the origins, else `/`."""
    if not url.isprintable() or len(url) > _MAX_RETURN_URL or "\\" in url:
        return "/"
    if url.startswith("/") and not url.startswith("//"):
        return url
    try:
        parts = urlsplit(url)
    except ValueError:
        return "/"
    return url if f"{parts.scheme}://{parts.netloc}" in origins else "/"


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _name(value: object, email: str) -> str:
    name = "".join(letter for letter in _text(value) if letter.isprintable())
    return name[:MAX_FULL_NAME] or email.partition("@")[0][:MAX_FULL_NAME]


def _groups(value: object) -> tuple[str, ...]:
    """Return the texts of a list; one text with commas could hold a name that somebody chose."""
    if not isinstance(value, list):
        return ()
    texts = (_text(word)[:_MAX_GROUP] for word in value[:_MAX_GROUPS])
    return tuple(text for text in texts if text)
