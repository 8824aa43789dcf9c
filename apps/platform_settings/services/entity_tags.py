"""The settings with masks, and the entity tags that are made of them (RFC 9110, 8.8)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.utils.http import parse_etags

from apps.http.api import strong_etag
from apps.platform_settings import conf
from apps.platform_settings.domain.encryption import unreadable_secrets
from apps.platform_settings.domain.wire import Wire, mask_secrets, settable_document
from kernel.clock import rfc3339
from kernel.errors import PlatformError

_VOLATILE_DIGITS: Final = 16


class SettingsChanged(PlatformError):
    """Another change came between the caller's read and this write."""

    code = "precondition_failed"


def masked_document(wire: Wire, updated_at: datetime | None, *, for_admin: bool) -> Wire:
    """Return the stored settings as a caller may see them."""
    unreadable = unreadable_secrets(wire, conf.encryption_keys())
    document = mask_secrets(wire, for_admin=for_admin, unreadable=unreadable)
    if updated_at is not None:
        document["updatedAt"] = rfc3339(updated_at)
    return document


def settings_etag(document: Mapping[str, Any]) -> str:
    """Return the entity tag: a part of what can be set, and a part of all."""
    return f'"{_settable_part(document)}-{strong_etag(document)[1 : _VOLATILE_DIGITS + 1]}"'


def check_unchanged(if_match: str, wire: Wire, updated_at: datetime | None) -> None:
    """Raise SettingsChanged unless a tag names what can be set of the stored document.

    What the platform fills in, such as heartbeats, may have changed. No tag fits always.
    """
    if not if_match.strip():
        return
    known = _settable_part(masked_document(wire, updated_at, for_admin=True))
    tags = parse_etags(if_match)
    if not ("*" in tags or any(tag.strip('"').partition("-")[0] == known for tag in tags)):
        raise SettingsChanged("the settings have changed since they were read")


def _settable_part(document: Mapping[str, Any]) -> str:
    """`updatedAt` is another one after each change, also where only a masked secret differs."""
    parts = [settable_document(document), document.get("updatedAt", "")]
    return strong_etag(parts).strip('"')
