"""`notifications.smtp` of the platform settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from apps.platform_settings.domain.addresses import HOST
from apps.platform_settings.domain.fields import Fields
from apps.platform_settings.domain.wire import SMTP, names
from readers.yaml import Node

_KEYS: Final = names(SMTP)
_SUBMISSION_PORT: Final = 587  # RFC 6409


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpSettings:
    host: str
    port: int
    username: str
    password: str = field(repr=False)
    sender: str


def read_smtp(fields: Fields, root: Node) -> SmtpSettings | None:
    """Return the mail server, or None without a host; errors go to `fields`."""
    section = root.get("notifications")
    if section is None or section.is_null:
        return None
    if not fields.known_keys(section, "/notifications", {"smtp"}):
        return None
    smtp, pointer = section.get("smtp"), "/notifications/smtp"
    if smtp is None or smtp.is_null or not fields.known_keys(smtp, pointer, _KEYS):
        return None
    found = SmtpSettings(
        host=fields.text(smtp, pointer, "host"),
        port=fields.whole(smtp, pointer, "port", default=_SUBMISSION_PORT, low=1, high=65535),
        username=fields.text(smtp, pointer, "username"),
        password=fields.secret(smtp, pointer, "password"),
        sender=fields.text(smtp, pointer, "from"),
    )
    if not HOST.fullmatch(found.host or "localhost"):
        detail = "must be the name or address of a host; user name and password have own keys"
        fields.refuse_value(smtp, pointer, "host", detail)
    if found.sender and "@" not in found.sender:
        fields.refuse_value(smtp, pointer, "from", "must be the mail address of the sender")
    return found if found.host else None
