"""Readers of environment variables; each raises ImproperlyConfigured with the name and the value.

Every secret is also read from the file named by `<NAME>_FILE`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, quote, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured
from dotenv import load_dotenv

from apps.executions.domain.artifact_location import (
    ArtifactLocation,
    is_printable_location,
    read_location,
)
from apps.operations.domain.mail import MailServer
from kernel.durations import parse_bytes, parse_duration_ms

T = TypeVar("T")
_MAIL_PORTS = {"smtp": 25, "smtp+tls": 587, "smtps": 465}
SOCIAL_PACKAGE = "allauth.socialaccount.providers"
_HOST = re.compile(r"\.?[A-Za-z0-9_-][A-Za-z0-9._-]*|\[[0-9a-f:.]+\]")
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


def load_dotenv_files(*paths: Path) -> None:
    """Read `.env` files; what the environment already has wins, then the first file that has it."""
    for path in paths:
        load_dotenv(path, override=False)


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, "") or default


def secret(name: str) -> str:
    """The variable, or the content of the file that `<NAME>_FILE` names; empty when neither."""
    if path := os.environ.get(f"{name}_FILE"):
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ImproperlyConfigured(f"{name}_FILE={path!r}: {error.strerror}") from error
    return os.environ.get(name, "")


def secret_words(name: str) -> tuple[str, ...]:
    """A comma list of secrets; blanks are dropped."""
    return tuple(word.strip() for word in secret(name).split(",") if word.strip())


def served_hosts(name: str, own_urls: Sequence[str]) -> tuple[str, ...]:
    """A comma list of host names; `.example.org` stands for all below it, `*` for every host.

    With a list, the hosts of `own_urls` are served, too. Unset: every host.
    """
    listed = words(name, "*")
    for host in listed:
        if host != "*" and not _HOST.fullmatch(host):
            raise ImproperlyConfigured(
                f"{name}={host!r}: expected host names without scheme and port, such as "
                "partita.example.org, .example.org or [::1]"
            )
    return listed if "*" in listed else tuple(dict.fromkeys([*listed, *hosts_of(own_urls)]))


def hosts_of(urls: Sequence[str]) -> list[str]:
    """The hosts of URLs as a Host header names them: IPv6 addresses in brackets."""
    hosts = filter(None, (urlsplit(url).hostname for url in urls))
    return [f"[{host}]" if ":" in host else host for host in hosts]


def flag(name: str, *, default: bool) -> bool:
    raw = text(name, str(default)).lower()
    if raw not in _FLAGS:
        raise ImproperlyConfigured(f"{name}={raw!r}: expected 'true' or 'false'")
    return _FLAGS[raw]


def optional_flag(name: str) -> bool | None:
    """The flag; None when it is not set."""
    return flag(name, default=False) if text(name) else None


def integer(name: str, default: int, *, low: int = 0, high: int = 2**53) -> int:
    value = _parse(name, str(default), int, "a whole number")
    if not low <= value <= high:
        raise ImproperlyConfigured(f"{name}={value}: expected {low} to {high}")
    return value


def number(name: str, default: float) -> float:
    return _parse(name, str(default), float, "a number")


def duration_s(name: str, default: str) -> float:
    """Seconds, from text such as `250ms`, `30s`, `5m`, `24h`."""
    return _parse(name, default, parse_duration_ms, "a duration such as 30s") / 1000


def size(name: str, default: str) -> int:
    return _parse(name, default, parse_bytes, "a size such as 512Mi")


def choice(name: str, default: str, options: Sequence[str]) -> str:
    value = text(name, default)
    if value not in options:
        raise ImproperlyConfigured(f"{name}={value!r}: expected one of {', '.join(options)}")
    return value


def words(name: str, default: str = "") -> tuple[str, ...]:
    """A comma list; blanks are dropped."""
    return tuple(word.strip() for word in text(name, default).split(",") if word.strip())


def mapping(name: str) -> dict[str, str]:
    """A JSON object of strings; empty when unset."""
    value = _parse(name, "{}", json.loads, "a JSON object of strings")
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise ImproperlyConfigured(f"{name}: expected a JSON object of strings")
    return value


def with_prefix(prefix: str) -> dict[str, str]:
    """Return all variables whose names begin with the prefix."""
    return {name: value for name, value in os.environ.items() if name.startswith(prefix)}


def _parse(name: str, default: str, parse: Callable[[str], T], expected: str) -> T:
    raw = text(name, default)
    try:
        return parse(raw)
    except ValueError:
        raise ImproperlyConfigured(f"{name}={raw!r}: expected {expected}") from None


def redis_url(address: str, password: str, db: int) -> str:
    """REDIS_ADDR, REDIS_PASSWORD and REDIS_DB as one URL, empty without an address.

    Raises ImproperlyConfigured for one that is no `host:port`.
    """
    if not address:
        return ""
    if not _is_host_and_port(address):
        raise ImproperlyConfigured(f"REDIS_ADDR={address!r}: expected host:port")
    login = f":{quote(password, safe='')}@" if password else ""
    return f"redis://{login}{address}/{db}"


def mail_address(name: str) -> MailServer:
    """Read `smtp://`, `smtp+tls://` or `smtps://user:password@host:port/?from=address`.

    The server has no host where nothing is set.
    Raises ImproperlyConfigured, which does not show the value: it holds a password.
    """
    value = secret(name)
    if not value:
        return MailServer()
    try:
        parts = urlsplit(value)
        port = parts.port or _MAIL_PORTS[parts.scheme]
        sender = parse_qs(parts.query, strict_parsing=True)["from"][0]
    except (KeyError, ValueError):
        parts, port, sender = urlsplit(""), 0, ""
    if not parts.hostname or "@" not in sender:
        raise ImproperlyConfigured(
            f"{name}: expected smtp://, smtp+tls:// or smtps://user:password@host:port/"
            "?from=partita@example.org"
        )
    return MailServer(
        host=parts.hostname,
        port=port,
        username=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        use_tls=parts.scheme == "smtp+tls",
        use_ssl=parts.scheme == "smtps",
        sender=sender,
    )


def artifact_location(name: str, data_dir: Path) -> ArtifactLocation | None:
    """Read `store`, `disk`, `file:///folder` or `s3://bucket/prefix?…`; None: the store."""
    value = text(name)
    try:
        return read_location(value, data_dir)
    except ValueError as error:
        shown = f"={value!r}" if is_printable_location(value) else ""  # no credentials in logs
        raise ImproperlyConfigured(f"{name}{shown}: {error}") from None


def social_providers(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Read SOCIAL_<NAME>_CLIENT_ID, …_CLIENT_SECRET and …_SETTINGS (JSON) of each provider.

    Returns the value of Django-allauth's SOCIALACCOUNT_PROVIDERS. Raises ImproperlyConfigured.
    """
    found = {}
    for name in names:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or not find_spec(f"{SOCIAL_PACKAGE}.{name}"):
            raise ImproperlyConfigured(
                f"SOCIAL_PROVIDERS={name!r}: django-allauth has no provider of this name, such as "
                "github, gitlab or google"
            )
        prefix = f"SOCIAL_{name.upper()}"
        credentials = {
            "client_id": text(f"{prefix}_CLIENT_ID"),
            "secret": secret(f"{prefix}_CLIENT_SECRET"),
        }
        found[name] = {**_object(f"{prefix}_SETTINGS"), "APPS": [credentials]}
    return found


def _object(name: str) -> dict[str, Any]:
    value = text(name) or "{}"
    try:
        found = json.loads(value)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ImproperlyConfigured(f"{name}={value!r}: expected a JSON object")
    return found


def _is_host_and_port(address: str) -> bool:
    try:
        parts = urlsplit(f"//{address}")
        return bool(parts.hostname) and parts.netloc == address and parts.port != 0
    except ValueError:  # a port that is not a number, brackets around no IPv6 address
        return False
